// Tiny models with a real tokenizer, for tests that read and write text.
#ifndef BRAID_TESTS_TRAINER_TINY_TEXT_RUN_H_
#define BRAID_TESTS_TRAINER_TINY_TEXT_RUN_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "runs/run_directory.h"

namespace braid {

// Trains a tokenizer.model on `text` alone; `vocab_size` is about 270 to 300.
std::filesystem::path NewTokenizer(const std::string& text, int32_t vocab_size);

// Writes a packed dataset (tiny_run.h) of tokens of that tokenizer.
std::filesystem::path NewTextDataset(const std::filesystem::path& tokenizer,
                                     int64_t sequence_length = 32);

// Trains a run of two steps on it; dense with one expert.
RunDirectory NewTextRun(const std::filesystem::path& dataset, int num_experts,
                        v1::Router router = v1::CAUSAL_SEGMENT,
                        v1::TokenRouting::Gate gate = v1::TokenRouting::GATE_UNSPECIFIED);

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_TINY_TEXT_RUN_H_
