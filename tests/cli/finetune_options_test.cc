#include "cli/finetune_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "cli/finetune_preview.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/supervised/tiny_tokenizers.h"

namespace braid {
namespace finetune_options_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseLoraTest, ReadsEverySetting) {
  ASSERT_OK_AND_ASSIGN(const v1::LoraConfig lora,
                       ParseLora("r=16,alpha=32,targets=q,v,down,layers=-1,-2,dropout=0.25,rs"));
  EXPECT_EQ(lora.rank(), 16);
  EXPECT_EQ(lora.alpha(), 32);
  EXPECT_THAT(lora.targets(), ElementsAre("q", "v", "down"));
  EXPECT_THAT(lora.layers(), ElementsAre(-1, -2));
  EXPECT_EQ(lora.dropout(), .25);
  EXPECT_TRUE(lora.rs_lora());
}

TEST(ParseLoraTest, LeavesDefaultsToTheRun) {
  ASSERT_OK_AND_ASSIGN(const v1::LoraConfig lora, ParseLora("rs"));
  EXPECT_FALSE(lora.has_rank());
  EXPECT_FALSE(lora.has_alpha());
}

TEST(ParseLoraTest, NamesThePartThatIsMalformed) {
  for (const std::string text : {"r=x", "q", "r=8,16", "rank", "alpha=", "targets=", "r"}) {
    EXPECT_FAILS(ParseLora(text).status(), absl::StatusCode::kInvalidArgument, "--lora: got ",
                 "targets=q,v");
  }
}

TEST(ParseLoraTest, RefusesNothingAndSettingsThatAreGivenTwice) {
  EXPECT_FAILS(ParseLora("").status(), absl::StatusCode::kInvalidArgument,
               "--lora: got no setting, expected r=N");
  EXPECT_FAILS(ParseLora("r=8,r=2").status(), absl::StatusCode::kInvalidArgument,
               "--lora: got r twice in r=8,r=2");
  for (const std::string text :
       {"r=8,rank=2", "alpha=1,alpha=1", "rs,r=2,rs", "dropout=0,dropout=0", "targets=q,targets=v",
        "layers=0,layers=1"}) {
    EXPECT_FAILS(ParseLora(text).status(), absl::StatusCode::kInvalidArgument, " twice in " + text);
  }
}

FinetuneOptions* Parse(std::vector<std::string> arguments, CLI::App* app) {
  auto* const options = new FinetuneOptions;
  options->AddTo(app);
  std::ranges::reverse(arguments);
  app->parse(arguments);
  return options;
}

TEST(FinetuneOptionsTest, TheSpecHasLengthAndAdapters) {
  CLI::App app;
  const std::unique_ptr<FinetuneOptions> options(
      Parse({"base", "--data", "a.jsonl", "--lora", "r=4", "--epochs", "2", "--seed", "7",
             "--validate-every", "50", "--field", "answer=reply"},
            &app));
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, options->Spec());
  EXPECT_EQ(spec.finetuning().lora().rank(), 4);
  EXPECT_EQ(spec.length().epochs(), 2);
  EXPECT_EQ(spec.validation().every().steps(), 50);
  EXPECT_EQ(spec.seed(), 7u);
  ASSERT_OK_AND_ASSIGN(const auto fields, options->Fields());
  EXPECT_EQ(fields.at("answer"), "reply");
}

TEST(FinetuneOptionsTest, APartHasOneField) {
  FinetuneOptions options;
  options.field_names = {"answer=reply", "prompt=ask", "answer=output"};
  EXPECT_FAILS(options.Fields(), absl::StatusCode::kInvalidArgument,
               "--field: got answer twice, expected one field");
}

TEST(FinetuneOptionsTest, ASeedOfZeroReplacesThatOfTheConfiguration) {
  for (const bool given : {false, true}) {
    std::vector<std::string> arguments = {"base", "--data", "a.jsonl", "--set", "seed=5"};
    if (given) arguments.insert(arguments.end(), {"--seed", "0"});
    CLI::App app;
    const std::unique_ptr<FinetuneOptions> options(Parse(arguments, &app));
    ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, options->Spec());
    EXPECT_EQ(spec.seed(), given ? 0u : 5u);
  }
}

TEST(FinetuneOptionsTest, AdaptersHaveDefaultsWithoutAValueButNotWithAnEmptyOne) {
  CLI::App bare, empty;
  const std::unique_ptr<FinetuneOptions> defaults(
      Parse({"base", "--data", "a.jsonl", "--lora"}, &bare));
  EXPECT_EQ(defaults->Spec()->finetuning().lora().rank(), 8);
  const std::unique_ptr<FinetuneOptions> unset(
      Parse({"base", "--data", "a.jsonl", "--lora", ""}, &empty));
  EXPECT_FAILS(unset->Spec().status(), absl::StatusCode::kInvalidArgument,
               "--lora: got no setting");
}

TEST(FinetuneOptionsTest, SettingsThatTheCommandDeterminesAreRefused) {
  for (const auto& [assignment, instead] :
       {std::pair<std::string, std::string>("init_from=nosuch", "the argument MODEL"),
        {"dataset_dir=nosuch", "--data"},
        {"datasets={dataset: \"nosuch\", share: 1}", "--data"},
        {"branch_from=nosuch@3", "braid train --branch"}}) {
    CLI::App app;
    const std::unique_ptr<FinetuneOptions> options(
        Parse({"base", "--data", "a.jsonl", "--set", assignment}, &app));
    EXPECT_FAILS(options->Spec().status(), absl::StatusCode::kInvalidArgument, ": got nosuch",
                 "expected nothing with finetune; ", instead);
  }
}

TEST(FinetuneOptionsTest, TheSpecHasLossesAndRates) {
  CLI::App app;
  const std::unique_ptr<FinetuneOptions> options(
      Parse({"base", "--data", "a.jsonl", "--label-smoothing", "0.1", "--embedding-noise", "5",
             "--rate", "*lora_B*=16", "--rate", "model.layers.0.*=0.5"},
            &app));
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, options->Spec());
  EXPECT_EQ(spec.finetuning().label_smoothing(), 0.1);
  EXPECT_EQ(spec.finetuning().embedding_noise(), 5);
  ASSERT_EQ(spec.finetuning().learning_rates_size(), 2);
  EXPECT_EQ(spec.finetuning().learning_rates(0).pattern(), "*lora_B*");
  EXPECT_EQ(spec.finetuning().learning_rates(0).factor(), 16);
  for (const std::string bad : {"*", "=2", "*=x"}) {
    CLI::App other;
    const std::unique_ptr<FinetuneOptions> wrong(
        Parse({"base", "--data", "a.jsonl", "--rate", bad}, &other));
    EXPECT_FAILS(wrong->Spec().status(), absl::StatusCode::kInvalidArgument, "--rate: got " + bad,
                 "PATTERN=FACTOR");
  }
}

TEST(FinetuneOptionsTest, AdaptersTrainTheGatesOfNewExpertsThatHaveParameters) {
  const auto trained = [](const std::vector<std::string>& more) {
    CLI::App app;
    std::vector<std::string> all = {"base", "--data", "a.jsonl", "--experts", "4"};
    all.insert(all.end(), more.begin(), more.end());
    const std::unique_ptr<FinetuneOptions> options(Parse(all, &app));
    return static_cast<int>(options->Spec()->finetuning().train_size());
  };
  EXPECT_EQ(trained({"--lora", "r=2", "--gate", "cosine"}), 1);
  EXPECT_EQ(trained({"--lora", "r=2", "--split", "copies"}), 1);
  EXPECT_EQ(trained({"--lora", "r=2", "--gate", "frozen"}), 0);
  EXPECT_EQ(trained({"--lora", "r=2"}), 0);
  EXPECT_EQ(trained({"--gate", "cosine"}), 0) << "all parameters are trained";
}

TEST(FinetuneOptionsTest, GatesThatNoSplitCanHaveAreNeitherShownNorTaken) {
  const auto parse = [](const std::string& gate) {
    CLI::App app;
    const std::unique_ptr<FinetuneOptions> options(
        Parse({"base", "--data", "a.jsonl", "--experts", "4", "--gate", gate}, &app));
    EXPECT_EQ(app.get_option("--gate")->get_type_name(),
              "linear|frozen|key-mean|random|hash|cosine");
    return options->Split()->value().gate();
  };
  EXPECT_EQ(parse("hash"), v1::TokenRouting::HASH);
  EXPECT_EQ(parse("KEY_MEAN"), v1::TokenRouting::KEY_MEAN);
  EXPECT_THROW(parse("relu"), CLI::ValidationError);
}

TEST(FinetuneOptionsTest, RecomposingIsTheDefaultAndMayBeNamed) {
  const auto recomposes = [](const std::vector<std::string>& more) {
    CLI::App app;
    std::vector<std::string> all = {"base", "--data", "a.jsonl", "--experts", "4"};
    all.insert(all.end(), more.begin(), more.end());
    const std::unique_ptr<FinetuneOptions> options(Parse(all, &app));
    return options->Spec()->finetuning().recompose();
  };
  EXPECT_TRUE(recomposes({}));
  EXPECT_TRUE(recomposes({"--recompose"}));
  EXPECT_FALSE(recomposes({"--no-recompose"}));
}

TEST(FinetuneOptionsTest, TrainsAllWeightsForThreeEpochsByDefault) {
  CLI::App app;
  const std::unique_ptr<FinetuneOptions> options(Parse({"base", "--data", "a.jsonl"}, &app));
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, options->Spec());
  EXPECT_TRUE(spec.has_finetuning());
  EXPECT_FALSE(spec.finetuning().has_lora());
  EXPECT_EQ(spec.length().epochs(), 3);
}

TEST(FinetuneOptionsTest, RefusesStepsWithEpochs) {
  CLI::App app;
  const std::unique_ptr<FinetuneOptions> options(
      Parse({"base", "--data", "a.jsonl", "--epochs", "2", "--steps", "9"}, &app));
  EXPECT_FAILS(options->Spec().status(), absl::StatusCode::kInvalidArgument, "--epochs");
}

TEST(PrintEncodedExampleTest, MarksTargetsAndShortensLongStretches) {
  const auto tokenizer = ParseTokenizer(SentencePieceBytes());
  std::vector<int32_t> tokens(50, tokenizer->eos_id());
  const std::vector<TokenRange> targets = {{40, 42}, {45, 50}};
  std::ostringstream out;
  PrintEncodedExample("a.jsonl:3", tokens, targets, "", *tokenizer, out);
  EXPECT_THAT(out.str(), HasSubstr("a.jsonl:3: 50 tokens, 7 targets\n"));
  EXPECT_THAT(out.str(), HasSubstr("... 22 tokens ..."));
  int marked = 0;
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) marked += line.starts_with("  *") ? 1 : 0;
  EXPECT_EQ(marked, 7);
}

TEST(PrintEncodedExampleTest, ShowsThePromptOfALabelWithoutItsEnd) {
  const auto tokenizer = ParseTokenizer(SentencePieceBytes());
  const std::vector<int32_t> tokens(5, tokenizer->eos_id());
  const std::vector<TokenRange> targets = {{4, 5}};
  std::ostringstream out;
  PrintEncodedExample("a.jsonl:3", tokens, targets, "positive", *tokenizer, out);
  EXPECT_THAT(out.str(), HasSubstr("a.jsonl:3: 4 tokens, label \"positive\"\n"));
  EXPECT_EQ(std::ranges::count(out.str(), '\n'), 5);
}

TEST(FinetuneOptionsTest, FilesHaveWeights) {
  FinetuneOptions options;
  const ScratchDirectory scratch;
  const std::filesystem::path odd = scratch.path() / "odd=2";
  ASSERT_OK(WriteFileAtomically(odd, "{}"));
  options.data = {"a.jsonl", "b=c.jsonl=0.5", "d.jsonl=2", odd.string(), odd.string() + "=3"};
  ASSERT_OK_AND_ASSIGN(const auto files, options.WeighedData());
  using File = std::pair<std::string, double>;
  EXPECT_THAT(files, ElementsAre(File("a.jsonl", 1), File("b=c.jsonl", .5), File("d.jsonl", 2),
                                 File(odd.string(), 1), File(odd.string(), 3)));
  for (const std::string weight : {"0", "-1", "nan", "inf", "", "x", "1001"}) {
    options.data = {"a.jsonl=" + weight};
    EXPECT_FAILS(options.WeighedData(), absl::StatusCode::kInvalidArgument,
                 "--data: got a.jsonl=" + weight, "expected FILE=WEIGHT");
  }
}

TEST(FinetuneOptionsTest, TasksHaveWeights) {
  CLI::App app;
  const std::unique_ptr<FinetuneOptions> options(
      Parse({"--task", "sst2", "--task", "mawps=0.5", "base", "--data", "tasks/"}, &app));
  EXPECT_EQ(options->model, "base");
  ASSERT_OK_AND_ASSIGN(const auto tasks, options->WeighedTasks());
  using Task = std::pair<std::string, double>;
  EXPECT_THAT(tasks, ElementsAre(Task("sst2", 1), Task("mawps", .5)));
  for (const std::string weight : {"0", "-1", "nan", "", "x", "1001"}) {
    options->tasks = {"sst2=" + weight};
    EXPECT_FAILS(options->WeighedTasks(), absl::StatusCode::kInvalidArgument,
                 "--task: got sst2=" + weight, "expected NAME=WEIGHT");
  }
  options->tasks = {"sst2", "mawps", "sst2=2"};
  EXPECT_FAILS(options->WeighedTasks(), absl::StatusCode::kInvalidArgument,
               "--task: got sst2 twice");
}

TEST(FinetuneOptionsTest, CheckpointsCanBeSelfContained) {
  CLI::App app;
  const std::unique_ptr<FinetuneOptions> options(
      Parse({"base", "--data", "a.jsonl", "--lora", "r=4", "--self-contained"}, &app));
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, options->Spec());
  EXPECT_TRUE(spec.finetuning().self_contained());
}

TEST(FinetuneOptionsTest, TheLabelHeadHasKinds) {
  for (const auto& [arguments, kind] :
       {std::pair<std::vector<std::string>, std::string>({"--label-head"}, "classes"),
        {{"--label-head=regression"}, "regression"}}) {
    CLI::App app;
    std::vector<std::string> all = {"base", "--data", "a.jsonl"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const std::unique_ptr<FinetuneOptions> options(Parse(all, &app));
    EXPECT_TRUE(options->with_label_head);
    EXPECT_EQ(options->label_head, kind);
  }
}

}  // namespace finetune_options_test
}  // namespace braid
