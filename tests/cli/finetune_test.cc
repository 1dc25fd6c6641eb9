// The command finetune from its records to the evaluation of its run, with the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "formats/safetensors.h"
#include "tests/program.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace finetune_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class FinetuneTest : public testing::Test {
 protected:
  FinetuneTest() {
    std::string records;
    for (int i = 0; i < 40; ++i) {
      absl::StrAppend(&records, "{\"prompt\": \"cat ", i, "\", \"completion\": \" dog ", i % 7,
                      "\"}\n");
    }
    EXPECT_TRUE(WriteFileAtomically(data_, records).ok());
  }

  // Runs a command that must succeed and returns its standard output.
  std::string Braid(std::vector<std::string> arguments, const std::string& home = "home") const {
    arguments.insert(arguments.begin(),
                     {BRAID_BIN_DIR "/braid", "--home", (root_ / home).string()});
    TestProgram program(arguments);
    EXPECT_EQ(program.Wait(), 0) << program.err();
    return program.out();
  }

  // Runs a command that must fail and returns its error.
  std::string Error(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {BRAID_BIN_DIR "/braid", "--home", (root_ / "home").string()});
    TestProgram program(arguments);
    EXPECT_NE(program.Wait(), 0) << program.out();
    return program.err();
  }

  // Trains on half of the examples, one step after the other half has been scored.
  json Finetune(const std::string& model) const {
    return json::parse(Braid({"--json", "finetune", model, "--data", data_.string(), "--validation",
                              ".5", "--steps", "2", "--threads", "1", "--wait"}));
  }

  const fs::path root_ = NewDirectory("finetune");
  const fs::path data_ = root_ / "pairs.jsonl";
  const fs::path base_ =
      NewTextRun(NewTextDataset(NewTokenizer("the cat sat on the mat and the dog ran. ", 275)), 1)
          .root();
};

TEST_F(FinetuneTest, ValidatesOnAllHeldOutExamplesAsTheEvaluationDoes) {
  const json run = Finetune(base_.string());
  const json result =
      json::parse(Braid({"--json", "eval", "perplexity", "run-000001", "--threads", "1"}));
  const json& all = result.at("evaluations").at(0).at("total");
  const json& validation = run.at("latest").at("validation");
  EXPECT_EQ(validation.at("num_windows"), all.at("num_windows"));
  EXPECT_GT(std::stoi(all.at("num_windows").get<std::string>()), 1);
  EXPECT_NEAR(validation.at("loss").get<double>(), all.at("loss").get<double>(), 1e-5);
  EXPECT_EQ(all.at("num_tokens"), all.at("num_tokens_after_first_segment"));
}

TEST_F(FinetuneTest, PrintsTheLaunchOfARunThatIsNamedById) {
  Finetune(base_.string());
  const std::string launch = Braid(
      {"finetune", "run-000001", "--data", data_.string(), "--lora", "r=2", "--print-launch"});
  EXPECT_THAT(launch, HasSubstr("braid-supervisor"));
  const json plan = json::parse(Braid({"--json", "finetune", "run-000001", "--data", data_.string(),
                                       "--lora", "r=2", "--print-launch"}));
  EXPECT_THAT(plan.at("executed").at(0).get<std::string>(), HasSubstr("braid-supervisor"));
  EXPECT_THAT(plan.at("mpirun").at(0).get<std::string>(), HasSubstr("mpirun"));
  EXPECT_TRUE(plan.at("files").empty()) << plan.at("files");
  EXPECT_TRUE(plan.at("variables").contains("PATH")) << plan.at("variables");
  EXPECT_FALSE(fs::exists(root_ / "home/runs/run-000002"));
}

// A run that would be refused is refused by the plan, and before its data is stored.
TEST_F(FinetuneTest, ADryRunRefusesWhatALaunchRefuses) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"--set", "optimizer.learning_rate=-1"}, "optimizer.learning_rate: got -1"},
      {{"--validate-every", "0"}, "validation.every: got 0"},
      {{"--validation", "0", "--patience", "3"}, "--validation: got 0 with settings of validation"},
      {{"--validation", "0", "--validate-every", "5"}, "--validation: got 0"},
      {{"--set", "optimizer.ema_decay=2"}, "ema_decay: got 2"},
      {{"--set", "spikes.threshold=-1"}, "spikes.threshold: got -1"},
      {{"--set", "model.layer_mixing.alpha=.9", "--set", "model.layer_mixing.decision=BATCH_MODE"},
       "model.layer_mixing.decision: got BATCH_MODE"}};
  for (const auto& [more, message] : refused) {
    std::vector<std::string> all = {"finetune", base_.string(), "--data", data_.string()};
    all.insert(all.end(), more.begin(), more.end());
    for (const char* const mode : {"--dry-run", "--print-launch", "--wait"}) {
      all.push_back(mode);
      EXPECT_THAT(Error(all), HasSubstr(message)) << mode;
      all.pop_back();
    }
  }
  EXPECT_FALSE(fs::exists(root_ / "home/supervised"));
}

TEST_F(FinetuneTest, PlansSequencesThatTheSegmentsOfADenseModelDoNotDivide) {
  const json plan = json::parse(Braid({"--json", "finetune", base_.string(), "--data",
                                       data_.string(), "--sequence-length", "29", "--dry-run"}));
  EXPECT_EQ(plan.at("sequence_length"), 29);
  // A step has four sequences, which one rank passes at once.
  EXPECT_EQ(plan.at("forecast").at("request").at("micro_batch_size"), 4);
}

TEST_F(FinetuneTest, TheSeedOfTheSettingsOrdersTheExamplesToo) {
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--json", "finetune",     base_.string(),
                                    "--data", data_.string(), "--dry-run"};
    all.insert(all.end(), more.begin(), more.end());
    json result = json::parse(Braid(all));
    result.erase("forecast");
    return result;
  };
  const json by_option = plan({"--seed", "5"});
  EXPECT_EQ(plan({"--set", "seed=5"}), by_option);
  EXPECT_NE(plan({}), by_option);
}

TEST_F(FinetuneTest, AHomeCanBeMovedWithItsAdapters) {
  Finetune(base_.string());
  Braid({"finetune", "run-000001", "--data", data_.string(), "--lora", "r=2", "--steps", "1",
         "--threads", "1", "--wait"});
  const std::vector<std::string> generate = {"generate",     "run-000002", "--prompt",  "the cat",
                                             "--max-tokens", "4",          "--threads", "1"};
  const std::string text = Braid(generate);
  // Imported adapters name the base that they were trained on.
  const std::string adapter = (root_ / "adapter").string();
  Braid({"export", "run-000002", "-o", adapter, "--adapter"});
  const auto warning_with = [&](const std::string& base) {
    TestProgram program({BRAID_BIN_DIR "/braid", "--home", (root_ / "home").string(), "import",
                         "--adapter", adapter, "--base", base, "--force", "-o",
                         (root_ / "imported").string()});
    EXPECT_EQ(program.Wait(), 0) << program.err();
    return program.err();
  };
  EXPECT_THAT(warning_with("run-000001"), testing::Not(HasSubstr("warning")));
  EXPECT_THAT(
      Error({"import", "--adapter", adapter, "--base", base_.string(), "--force", "-o",
             (root_ / "imported").string()}),
      HasSubstr("tensor model.layers.0.self_attn.q_proj.weight of the base: got checksum "));
  // Files of other programs have no checksums: only the name can show another base.
  {
    const fs::path weights = root_ / "adapter/adapter_model.safetensors";
    const SafetensorsFile file = SafetensorsFile::Open(weights).value();
    auto writer = SafetensorsWriter::Create(weights, file.tensors(), {}).value();
    for (const TensorInfo& tensor : file.tensors()) {
      ASSERT_TRUE(writer->Write(tensor.name, *file.Bytes(tensor.name)).ok());
    }
    ASSERT_TRUE(writer->Commit().ok());
  }
  EXPECT_THAT(warning_with(base_.string()),
              HasSubstr("adapter_config.json: base_model_name_or_path: got "));
  fs::rename(root_ / "home", root_ / "moved");
  EXPECT_EQ(Braid(generate, "moved"), text);
}

TEST_F(FinetuneTest, TrainsEvaluatesAndExportsALabelHead) {
  const fs::path task = root_ / "tasks/sst2";
  fs::create_directories(task);
  for (const char* const file : {"train.tsv", "dev.tsv"}) {
    std::string lines = "sentence\tlabel\n";
    for (int i = 0; i < 24; ++i) {
      absl::StrAppend(&lines, i % 2 == 0 ? "the cat ran " : "the dog sat ", i, "\t", i % 2, "\n");
    }
    ASSERT_TRUE(WriteFileAtomically(task / file, lines).ok());
  }
  const std::string tasks = (root_ / "tasks").string();
  const json run = json::parse(Braid({"--json",
                                      "finetune",
                                      base_.string(),
                                      "--task",
                                      "sst2",
                                      "--data",
                                      tasks,
                                      "--label-head",
                                      "--lora",
                                      "r=4,targets=q,k,v,o,gate,up,down",
                                      "--sequence-length",
                                      "128",
                                      "--steps",
                                      "60",
                                      "--validate-every",
                                      "60",
                                      "--batch",
                                      "8",
                                      "--learning-rate",
                                      "0.02",
                                      "--threads",
                                      "1",
                                      "--wait"}));
  EXPECT_THAT(
      Error({"finetune", base_.string(), "--task", "sst2", "--data", tasks, "--label-head",
             "--sequence-length", "128", "--set", "model.label_head.regression=true", "--dry-run"}),
      HasSubstr("model.label_head: got regression, expected classes negative, positive"));
  const json head = run.at("spec").at("model").at("label_head");
  EXPECT_EQ(head.at("classes"), json({"negative", "positive"}));
  EXPECT_GT(run.at("latest").at("validation").at("loss").get<double>(), 0);
  const json result = json::parse(Braid({"--json", "eval", "tasks", "run-000001", "--task", "sst2",
                                         "--data", tasks, "--threads", "1"}));
  const json& figures = result.at("results").at(0);
  EXPECT_EQ(figures.at("num_examples"), "24");
  EXPECT_GT(figures.at("metrics").at(0).at("value").get<double>(), .9) << figures;
  EXPECT_THAT(Error({"generate", "run-000001", "--prompt", "x"}),
              HasSubstr("got a model with a label head (classes negative, positive)"));
  EXPECT_THAT(Error({"eval", "perplexity", "run-000001"}), HasSubstr("got a model with a label "));
  EXPECT_THAT(Error({"finetune", "run-000001", "--data", data_.string()}),
              HasSubstr("model without --label-head: got a model with a label head"));
  EXPECT_THAT(
      Error({"finetune", base_.string(), "--task", "piqa", "--data", tasks, "--label-head"}),
      HasSubstr("piqa"));
  const std::string out = (root_ / "out").string();
  Braid({"export", "run-000001", "-o", out});
  const json config = json::parse(*ReadFile(root_ / "out/config.json"));
  EXPECT_EQ(config.at("architectures"), json::array({"LlamaForSequenceClassification"}));
  EXPECT_EQ(config.at("id2label"), json({{"0", "negative"}, {"1", "positive"}}));
  const std::string back = (root_ / "back again").string();
  EXPECT_THAT(Braid({"import", out, "-o", back}),
              HasSubstr("it has a label head (classes negative, positive); use it with: braid eval "
                        "tasks '" +
                        back + "' --data"));
  const json again =
      json::parse(Braid({"--json", "eval", "tasks", back, "--task", "sst2", "--data", tasks,
                         "--answers", (root_ / "answers").string(), "--threads", "1"}));
  EXPECT_EQ(again.at("results").at(0).at("metrics").at(0).at("value"),
            figures.at("metrics").at(0).at("value"));
  // An adapter export replaces the export of a model, and the other way around.
  Braid({"export", "run-000001", "-o", out, "--adapter", "--force"});
  const json adapter = json::parse(*ReadFile(root_ / "out/adapter_config.json"));
  EXPECT_EQ(adapter.at("task_type"), "SEQ_CLS");
  EXPECT_EQ(adapter.at("modules_to_save"), json::array({"score"}));
  Braid({"export", "run-000001", "-o", out, "--force"});
  EXPECT_FALSE(fs::exists(root_ / "out/adapter_config.json"));
}

TEST_F(FinetuneTest, TrainsOnTasksAndEvaluatesThemOnTheirOtherExamples) {
  std::string amazon;  // which has no training file
  for (int i = 0; i < 80; ++i) absl::StrAppend(&amazon, 1 + i % 2, ",the cat ", i, ",ran\n");
  const auto sst2 = [](int count) {
    std::string lines = "sentence\tlabel\n";
    for (int i = 0; i < count; ++i) absl::StrAppend(&lines, "the dog sat ", i, "\t", i % 2, "\n");
    return lines;
  };
  for (const auto& [file, text] : std::map<std::string, std::string>{
           {"amazon/test.csv", amazon}, {"sst2/train.tsv", sst2(20)}, {"sst2/dev.tsv", sst2(4)}}) {
    fs::create_directories((root_ / "tasks" / file).parent_path());
    ASSERT_TRUE(WriteFileAtomically(root_ / "tasks" / file, text).ok());
  }
  const std::string tasks = (root_ / "tasks").string();
  const std::vector<std::string> finetune = {"finetune",
                                             base_.string(),
                                             "--data",
                                             tasks,
                                             "--task",
                                             "amazon",
                                             "--task",
                                             "sst2=2",
                                             "--steps",
                                             "2",
                                             "--sequence-length",
                                             "128",
                                             "--validation",
                                             ".2",
                                             "--validate-every",
                                             "1",
                                             "--threads",
                                             "1"};
  const auto with = [&](std::vector<std::string> first, const std::vector<std::string>& last) {
    first.insert(first.end(), finetune.begin(), finetune.end());
    first.insert(first.end(), last.begin(), last.end());
    return first;
  };
  EXPECT_THAT(Braid(with({}, {"--dry-run"})),
              HasSubstr("75 % of its examples, which evaluation leaves out"));
  EXPECT_THAT(Error(with({}, {"--strict"})), HasSubstr("train.tsv:2: got the text of an example "));
  EXPECT_THAT(Error(with({}, {"--template", "chatml"})),
              HasSubstr("--template: got chatml with --task, expected plain"));
  EXPECT_THAT(Error(with({}, {"--task", "sst2"})), HasSubstr("--task: got sst2 twice"));
  const json run = json::parse(Braid(with({"--json"}, {"--wait"})));
  std::vector<std::string> domains;
  for (const json& domain : run.at("latest").at("validation").at("domains")) {
    domains.push_back(domain.at("domain").get<std::string>());
    EXPECT_GT(domain.at("loss").get<double>(), 0);
  }
  EXPECT_EQ(domains, std::vector<std::string>({"amazon", "sst2"}));

  // Where the held-out examples come from is known, too.
  const fs::path dataset = run.at("spec").at("dataset_dir").get<std::string>();
  const std::string ids = *ReadFile(dataset / "heldout/sst2.provenance/ids.txt");
  std::string place;
  for (const auto line : absl::StrSplit(ids, '\n')) {
    if (absl::StrContains(line, "train.tsv:")) place = std::string(line);
  }
  const json explained =
      json::parse(Braid({"--json", "explain", "run-000001", "--document", place}));
  EXPECT_TRUE(explained.at("spans").empty());
  EXPECT_EQ(explained.at("heldout").at(0).at("domain"), "sst2");
  EXPECT_THAT(Braid({"explain", "run-000001", "--document", place}),
              HasSubstr(": held out, instance "));

  const auto evaluate = [&](const std::vector<std::string>& models, bool as_json) {
    std::vector<std::string> all = {"eval",    "tasks",  "--data",    tasks,
                                    "--task",  "amazon", "--threads", "1",
                                    "--shots", "0",      "--answers", (root_ / "answers").string()};
    if (as_json) all.insert(all.begin(), "--json");
    all.insert(all.end(), models.begin(), models.end());
    return Braid(all);
  };
  const json result = json::parse(evaluate({base_.string(), "run-000001"}, true));
  const int kept = std::stoi(result.at("results").at(0).at("num_examples").get<std::string>());
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 40);
  EXPECT_EQ(result.at("results").at(1).at("num_examples"), absl::StrCat(kept));
  EXPECT_EQ(result.at("comparisons").at(0).at("num_examples"), absl::StrCat(kept));
  EXPECT_THAT(evaluate({"run-000001"}, false),
              HasSubstr(absl::StrCat("skipped: amazon: ", 80 - kept, " of 80 examples, because ")));
  EXPECT_EQ(json::parse(evaluate({base_.string()}, true)).at("results").at(0).at("num_examples"),
            "80");
}

TEST_F(FinetuneTest, ExplainsExamplesOfARunByIdDirectoryAndDataset) {
  const json run = Finetune(base_.string());
  const std::string dataset = run.at("spec").at("dataset_dir").get<std::string>();
  const json first =
      json::parse(Braid({"--json", "explain", "run-000001", "--step", "1"})).at("instances").at(0);
  const std::string place = first.at("examples").at(0).at("place").get<std::string>();
  const auto explained = [&](std::vector<std::string> which) {
    which.insert(which.begin(), {"--json", "explain"});
    which.insert(which.end(), {"--document", place});
    return json::parse(Braid(which)).at("spans");
  };
  const json expected = explained({"run-000001"});
  EXPECT_FALSE(expected.at(0).at("steps").empty());
  EXPECT_EQ(explained({(root_ / "home/runs/run-000001").string()}), expected);
  EXPECT_EQ(explained({dataset, "--run", "run-000001"}), expected);
  EXPECT_THAT(Error({"explain", dataset, "--run", base_.string(), "--document", place}),
              HasSubstr("--run: got "));
  ASSERT_TRUE(WriteFileAtomically(std::filesystem::path(dataset) / "rejects.jsonl",
                                  R"({"place": "x.jsonl:9", "reason": "empty answer"})")
                  .ok());
  EXPECT_THAT(Braid({"explain", "run-000001", "--document", "x.jsonl:9"}),
              HasSubstr("x.jsonl:9: not trained on: empty answer"));
  // A run that has done no step.
  fs::create_directory(root_ / "early");
  fs::copy(root_ / "home/runs/run-000001/run.textproto", root_ / "early/run.textproto");
  EXPECT_THAT(Braid({"explain", (root_ / "early").string(), "--document", place}),
              HasSubstr("\nnot trained on by " + (root_ / "early").string() + "\n"));
  // A run has its own order, however it is named.
  for (const std::string& id :
       {std::string("run-000001"), (root_ / "home/runs/run-000001").string()}) {
    EXPECT_THAT(Error({"explain", id, "--seed", "7", "--document", place}),
                HasSubstr("--seed: cannot be combined with " + id));
  }
}

TEST_F(FinetuneTest, ExplainsTheStepsOfAGrowingBatch) {
  Braid({"finetune", base_.string(), "--data", data_.string(), "--steps", "3", "--batch", "3",
         "--set", "batch.first_batch_size=1", "--set", "batch.warmup.steps=3", "--wait"});
  std::set<std::string> instances;
  // The sizes of BatchSchedule; the batch is full after three steps.
  for (const auto& [step, size] : std::map<std::string, size_t>{{"1", 1}, {"2", 1}, {"3", 2}}) {
    const json explained = json::parse(Braid({"--json", "explain", "run-000001", "--step", step}));
    EXPECT_EQ(explained.at("instances").size(), size) << step;
    for (const json& instance : explained.at("instances")) {
      instances.insert(instance.at("instance").dump());
    }
  }
  EXPECT_EQ(instances.size(), 4) << "no instance twice";
}

}  // namespace finetune_test
}  // namespace braid
