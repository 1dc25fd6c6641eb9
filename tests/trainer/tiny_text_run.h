// Tiny models with a real tokenizer, for what reads and writes text.
#ifndef BRAID_TESTS_TRAINER_TINY_TEXT_RUN_H_
#define BRAID_TESTS_TRAINER_TINY_TEXT_RUN_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "runs/run_directory.h"

namespace braid {

// A tokenizer.model trained on `text` alone; `vocab_size` of about 270 to 300.
std::filesystem::path NewTokenizer(const std::string& text, int32_t vocab_size);

// A packed dataset (tiny_run.h) of tokens of that tokenizer.
std::filesystem::path NewTextDataset(const std::filesystem::path& tokenizer,
                                     int64_t sequence_length = 32);

// A run of two steps on it; dense with one expert.
RunDirectory NewTextRun(const std::filesystem::path& dataset, int num_experts,
                        v1::Router router = v1::CAUSAL_SEGMENT);

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_TINY_TEXT_RUN_H_
