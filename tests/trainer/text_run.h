// A trained run with a real tokenizer, for tests that generate text.
#ifndef BRAID_TESTS_TRAINER_TEXT_RUN_H_
#define BRAID_TESTS_TRAINER_TEXT_RUN_H_

#include "runs/run_directory.h"

namespace braid {

// Trains TinySpec for 20 steps: a context of 32 tokens, segments of 8, 4 experts in each of 2
// layers. The weights are the same every time. Its texts are not words. Saves a checkpoint every
// `checkpoint_every` steps.
RunDirectory TrainTextRun(int checkpoint_every = 20);

// Trains the same model without experts.
RunDirectory TrainDenseTextRun(int checkpoint_every);

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_TEXT_RUN_H_
