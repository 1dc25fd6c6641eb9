// Commands that export, import and convert models.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_fixture.h"

namespace braid {
namespace cli_models_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using CliModelsTest = CliFixture;
INSTANTIATE_TEST_SUITE_P(Embedded, CliModelsTest, ::testing::Values(false));

TEST_P(CliModelsTest, ExportsAndImportsModels) {
  ASSERT_EQ(Submit({Corpus(), "--order", "similarity"}).exit_code, 0) << Contents(root_ / "err");
  const Arguments small = {"--data", "job-000001", "--steps", "2", "--threads", "1"};
  Arguments experts = small;
  experts.insert(experts.end(), {"--experts", "4"});
  const Outcome trained = Train(experts);
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_THAT(trained.errors, HasSubstr("braid: warning: model.routing.segment_length: got 64, "
                                        "which is the whole sequence"));
  EXPECT_THAT(trained.errors, HasSubstr("braid: note: a batch of 4 sequences on documents in "
                                        "similarity order"));
  for (const char* const flag : {"--wait", "--print-launch"}) {
    ExpectError(Braid({"train", "--data", "job-000001", "--init-from", "run-000001@ema", flag}), 1,
                {"runs/run-000001/checkpoints/", "has no average of the weights"});
  }
  const std::string out = (root_ / "out dir").string(), back = (root_ / "back").string();
  const Outcome exported =
      Braid({"export", "run-000001", "-o", out, "--bake", "@" + File("prompt", "abc"), "--json"});
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_EQ(nlohmann::json::parse(exported.output).at("architecture"), "LlamaForCausalLM");
  EXPECT_THAT(exported.errors, Not(HasSubstr("warning")));
  ExpectError(Braid({"export", "run-000001", "-o", out}), 1, {out, "--force"});
  ASSERT_EQ(Braid({"import", out, "--output", back}).exit_code, 0) << Contents(root_ / "err");
  EXPECT_EQ(Braid({"generate", back, "--prompt", "abc", "--max-tokens", "2"}).exit_code, 0);
  const Outcome run = Braid({"train", "--data", "job-000001", "--init-from", back, "--experts", "2",
                             "--steps", "2", "--threads", "1", "--wait", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(nlohmann::json::parse(run.output)["spec"]["init_from"], back);
  EXPECT_THAT(run.errors, Not(HasSubstr("braid: note")));
  EXPECT_EQ(Braid({"train", "--data", "job-000001", "--init-from", "run-000002", "--steps", "1",
                   "--wait"})
                .exit_code,
            0)
      << Contents(root_ / "err");
  // The run with this id comes before a directory of that name, as in a launch.
  fs::create_directories(root_ / "elsewhere/run-000002");
  TestProgram plan({BRAID_BIN_DIR "/braid", "--home", home(), "train", "--data", "job-000001",
                    "--init-from", "run-000002", "--steps", "1", "--print-launch"},
                   {.directory = root_ / "elsewhere"});
  EXPECT_EQ(plan.Wait(), 0) << plan.err();
}

// Growing experts, those that a corpus job uses most, copies, and splits.
TEST_P(CliModelsTest, ConvertsByTheDataOfAJob) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  const Arguments small = {"--data", "job-000001", "--steps", "2", "--threads", "1"};
  Arguments routed = small;
  routed.insert(routed.end(), {"--experts", "4"});
  for (const char* setting :
       {"model.routing.router=TOKEN_CHOICE", "model.routing.token.gate=FROZEN", "growth.first=1",
        "growth.last=2", "growth.until=0.5"}) {
    routed.insert(routed.end(), {"--set", setting});
  }
  const Outcome trained = Train(routed);
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_THAT(trained.errors, AllOf(Not(HasSubstr("warning")), Not(HasSubstr("braid: note"))));
  const auto run = nlohmann::json::parse(Braid({"--json", "status", "run-000001"}).output);
  EXPECT_EQ(run.at("spec").at("growth").at("last"), 2);
  const Outcome scored = Braid({"eval", "perplexity", "run-000001", "--active-experts", "1,2"});
  EXPECT_THAT(scored.output, AllOf(HasSubstr("1 active expert"), HasSubstr("2 active experts")));
  const Outcome generated = Braid(
      {"generate", "run-000001", "--active-experts", "1", "--prompt", "a", "--max-tokens", "2"});
  EXPECT_EQ(generated.exit_code, 0) << generated.errors;
  const std::string half = (root_ / "half").string(), other = (root_ / "other").string();
  const Outcome kept =
      Braid({"convert", "run-000001", "--keep", "2", "--used-by", "job-000001", "-o", half});
  ASSERT_EQ(kept.exit_code, 0) << kept.errors;
  EXPECT_THAT(kept.output, HasSubstr("2 experts, 2 active"));
  const Outcome exported = Braid(
      {"export", half, "-o", (root_ / "half-hf").string(), "--active-experts", "1", "--json"});
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_EQ(nlohmann::json::parse(exported.output).at("architecture"), "MixtralForCausalLM");
  const auto config = nlohmann::json::parse(Contents(root_ / "half-hf/config.json"));
  EXPECT_EQ(config.at("num_experts_per_tok"), 1);
  ExpectError(
      Braid({"convert", "run-000001", "--keep", "2", "--used-by", "job-000042", "-o", other}), 3,
      {"job-000042"});
  ExpectError(
      Braid({"convert", "run-000001", "--keep", "9", "--used-by", "job-000001", "-o", other}), 2,
      {"got 9, expected 2 to 4"});
  ExpectError(
      Braid({"convert", "run-000001", "--keep", "1", "--used-by", "job-000001", "-o", other}), 2,
      {"got 1, expected 2 to 4", "--dense"});
  const Outcome single = Braid({"convert", "run-000001", "--keep", "1", "--used-by", "job-000001",
                                "--dense", "-o", (root_ / "single").string()});
  ASSERT_EQ(single.exit_code, 0) << single.errors;
  EXPECT_THAT(single.output, HasSubstr("dense, "));
  ExpectError(Braid({"convert", "run-000001", "--experts", "4", "--layers", "", "-o", other}), 2,
              {"--layers", "expected an integer"});

  ASSERT_EQ(Train(small).exit_code, 0) << Contents(root_ / "err");
  const Outcome copied = Braid({"convert", "run-000002", "--copy", "3", "-o", other});
  ASSERT_EQ(copied.exit_code, 0) << copied.errors;
  EXPECT_THAT(copied.output, HasSubstr("3 experts, 2 active"));
  const Outcome split = Braid({"convert", "run-000002", "--experts", "4", "--gate", "cosine",
                               "--layers", "-1", "--force", "-o", other});
  ASSERT_EQ(split.exit_code, 0) << split.errors;
  EXPECT_THAT(split.output, HasSubstr("split in "));
  const Outcome layout = Braid({"export", other, "-o", (root_ / "other-hf").string()});
  ASSERT_EQ(layout.exit_code, 0) << layout.errors;
  EXPECT_THAT(layout.errors, HasSubstr("not a stock Mixtral, since the gate is COSINE, expected "
                                       "LINEAR or FROZEN"));
}

TEST_P(CliModelsTest, AnExportWarnsOfTheMaskThatOtherProgramsIgnore) {
  ASSERT_EQ(Submit({Corpus(), "--order", "similarity"}).exit_code, 0) << Contents(root_ / "err");
  const Outcome trained = Train({"--data", "job-000001", "--steps", "1", "--threads", "1",
                                 "--attention-mask", "DOCUMENT", "--batch", "64"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_THAT(trained.errors, Not(HasSubstr("braid: note"))) << "the batch is large enough";
  const Outcome exported =
      Braid({"export", "run-000001", "-o", (root_ / "masked").string(), "--json"});
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_THAT(exported.errors,
              AllOf(HasSubstr("braid: warning: "), HasSubstr("attention_mask DOCUMENT"),
                    HasSubstr("one document per sequence")));
  EXPECT_TRUE(nlohmann::json::accept(exported.output));
}

}  // namespace cli_models_test
}  // namespace braid
