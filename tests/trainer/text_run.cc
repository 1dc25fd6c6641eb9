#include "tests/trainer/text_run.h"

#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/check.h"
#include "formats/tokenizer.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace {

void Succeed(const absl::Status& status) { BRAID_CHECK(status.ok()) << status; }

std::filesystem::path TextDataset() {
  const std::filesystem::path file = NewDirectory("tokenizer") / "tokenizer.model";
  const std::string text = "the cat sat on the mat and the dog ran after the cat. ";
  Succeed(TrainTokenizer(std::vector<std::string>(20, text), {.vocab_size = 280}, file));
  const std::filesystem::path dataset = NewDirectory("text-data");
  WriteTinyDataset(dataset, {.vocab_size = (*Tokenizer::Load(file))->vocab_size()});
  Succeed(WriteFileAtomically(dataset / "tokenizer.model", *ReadFile(file)));
  SealDataset(dataset);
  return dataset;
}

RunDirectory TrainToTheEnd(v1::RunSpec spec, int checkpoint_every) {
  spec.mutable_checkpoint()->set_every_steps(checkpoint_every);
  RunDirectory run(NewDirectory("text-run"));
  Succeed(run.WriteSpec(spec));
  Succeed(TrainAlone(run, spec).status());
  return run;
}

}  // namespace

RunDirectory TrainTextRun(int checkpoint_every) {
  return TrainToTheEnd(TinySpec(TextDataset(), 20), checkpoint_every);
}

RunDirectory TrainDenseTextRun(int checkpoint_every) {
  return TrainToTheEnd(TinyDenseSpec(TextDataset(), 20), checkpoint_every);
}

}  // namespace braid
