#include "evaluation/layer_analysis.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/analysis_frame.h"
#include "evaluation/probing/probe_classifier.h"
#include "evaluation/probing/sentences.h"
#include "evaluation/probing/word_classes.h"
#include "evaluation/statistics/wilson_interval.h"
#include "evaluation/task_prompts.h"
#include "formats/tokenizer.h"
#include "formats/word_encoder.h"
#include "model/config/layer_mixing_config.h"
#include "model/layer_outputs.h"
#include "runs/model_path.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

using EmitLayersEvent = std::function<void(const v1::AnalyzeLayersEvent&)>;

constexpr int64_t kLayerAnalysisTokensPerPass = 4096;
constexpr int32_t kDefaultSentences = 10000, kMostSentences = 1000000;
constexpr int32_t kMostHiddenUnits = 4096;
// Outputs of all layers for the sentences of a probe, which are held at once.
constexpr int64_t kMostOutputBytes = int64_t{8} << 30;

int32_t NumSentences(const v1::AnalyzeLayersRequest& request) {
  return request.has_num_sentences() ? request.num_sentences() : kDefaultSentences;
}

absl::Status CheckLayersRequest(const v1::AnalyzeLayersRequest& request) {
  if (request.paths().empty() && request.tasks().empty()) {
    return absl::InvalidArgumentError(
        "paths: got none, expected files or directories with text, or tasks");
  }
  const auto check = [](const char* field, int32_t got, int32_t least, int32_t most) {
    if (got >= least && got <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": got ", got, ", expected ", least, " to ", most));
  };
  if (request.has_num_sentences()) {
    RETURN_IF_ERROR(
        check("num_sentences", request.num_sentences(), kLeastProbedSentences, kMostSentences));
  }
  if (request.has_num_words()) {
    // Each word needs a sentence to train on and one to test on.
    RETURN_IF_ERROR(check("num_words", request.num_words(), 2,
                          std::min(kMostWordClasses, NumSentences(request) / 2)));
    if (!request.probes().empty() && std::ranges::count(request.probes(), "words") == 0) {
      return absl::InvalidArgumentError(absl::StrCat("num_words: got ", request.num_words(),
                                                     ", expected none without the probe words"));
    }
  }
  return check("hidden_units", request.hidden_units(), 0, kMostHiddenUnits);
}

absl::Status CheckOutputsFit(const v1::AnalyzeLayersRequest& request,
                             const v1::ModelConfig& config) {
  const int64_t layers = config.num_layers() + 1;
  const int64_t bytes = layers * config.d_model() * static_cast<int64_t>(sizeof(float));
  const int64_t most = kMostOutputBytes / bytes;
  const int32_t asked = NumSentences(request);
  if (request.paths().empty() || asked <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("num_sentences: got ", asked, ", expected at most ", most, " for a model of ",
                   config.num_layers(), " layers of ", config.d_model(),
                   " units, whose outputs then take ", kMostOutputBytes >> 30, " GiB"));
}

// The tokens of sentences, and the sentences by number of tokens: sequences of one length need no
// padding, on which routers would decide too.
struct EncodedSentences {
  std::vector<std::vector<int32_t>> tokens;
  std::map<int64_t, std::vector<int64_t>> by_length;
};

absl::StatusOr<EncodedSentences> EncodeAll(const ProbeSentences& sentences,
                                           const LayerProbeOptions& options, int64_t most_tokens) {
  EncodedSentences encoded;
  for (const auto* part : {&sentences.training, &sentences.test}) {
    for (const LabeledSentence& sentence : *part) {
      const int64_t number = std::ssize(encoded.tokens);
      const auto& tokens = encoded.tokens.emplace_back(options.encode(sentence.text));
      if (std::ssize(tokens) > most_tokens) {
        return absl::InvalidArgumentError(absl::StrCat(
            "model: its sequences have ", most_tokens, " tokens, but a sentence has ",
            tokens.size(), " (\"", sentence.text.substr(0, Utf8PrefixLength(sentence.text, 40)),
            "\"); expected a model for longer sequences"));
      }
      encoded.by_length[std::ssize(tokens)].push_back(number);
    }
  }
  return encoded;
}

// Returns the mean outputs [num_layers + 1][sentences, D].
absl::StatusOr<std::vector<std::vector<float>>> OutputsOf(
    LanguageModel& model, const EncodedSentences& encoded, int64_t skipped,
    const std::function<void(int64_t done, int64_t total)>& progress) {
  const int64_t layers = model.config().num_layers() + 1, width = model.config().d_model();
  const int64_t total = std::ssize(encoded.tokens);
  std::vector<std::vector<float>> outputs(layers, std::vector<float>(total * width));
  int64_t done = 0;
  progress(done, total);
  for (const auto& [length, numbers] : encoded.by_length) {
    const int64_t per_pass = std::max<int64_t>(kLayerAnalysisTokensPerPass / length, 1);
    for (int64_t begin = 0; begin < std::ssize(numbers); begin += per_pass) {
      const int64_t batch = std::min(per_pass, std::ssize(numbers) - begin);
      std::vector<int32_t> tokens;
      for (int64_t i = 0; i < batch; ++i) {
        const std::vector<int32_t>& sentence = encoded.tokens[numbers[begin + i]];
        tokens.insert(tokens.end(), sentence.begin(), sentence.end());
      }
      ASSIGN_OR_RETURN(const std::vector<float> means,
                       MeanLayerOutputs(model, tokens, batch, std::min(skipped, length - 1)));
      for (int64_t layer = 0; layer < layers; ++layer) {
        for (int64_t i = 0; i < batch; ++i) {
          std::copy_n(means.begin() + (layer * batch + i) * width, width,
                      outputs[layer].begin() + numbers[begin + i] * width);
        }
      }
      progress(done += batch, total);
    }
  }
  return outputs;
}

std::vector<int32_t> LabelsOf(const std::vector<LabeledSentence>& sentences) {
  std::vector<int32_t> labels;
  for (const LabeledSentence& sentence : sentences) labels.push_back(sentence.label);
  return labels;
}

// Calls work(i) for i < count in threads of which each takes the next number.
void InThreads(int num_threads, int64_t count, const std::function<void(int64_t)>& work) {
  if (num_threads < 1) num_threads = static_cast<int>(std::thread::hardware_concurrency());
  std::atomic<int64_t> next = 0;
  const auto take = [&] {
    for (int64_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> threads;
  for (int64_t t = 1; t < std::min<int64_t>(num_threads, count); ++t) threads.emplace_back(take);
  take();
}

// A sentence may have more tokens after words or clauses have changed places.
constexpr int64_t kSpareTokens = 8;

// Labels the sentences of the text that fit into `most_tokens` tokens.
absl::StatusOr<std::vector<ProbeSentences>> SentencesOf(const v1::AnalyzeLayersRequest& request,
                                                        std::span<const Probe> probes,
                                                        const DocumentReader& reader,
                                                        const LayerProbeOptions& options,
                                                        int64_t most_tokens) {
  SentencePool pool(request.seed());
  const std::vector<std::string> paths(request.paths().begin(), request.paths().end());
  RETURN_IF_ERROR(
      reader(paths, [&](std::string_view, std::string_view text) { pool.Add(text); }).status());
  RETURN_IF_ERROR(pool.CheckScript());
  const int32_t asked = NumSentences(request);
  std::vector<std::string> sentences = pool.Sentences();
  std::erase_if(sentences, [&](const std::string& sentence) {
    // A token has at least one byte; a start token and one for the first space may be added.
    return std::ssize(sentence) + 2 + kSpareTokens > most_tokens &&
           std::ssize(options.encode(sentence)) + kSpareTokens > most_tokens;
  });
  return LabelSentences(
      sentences, probes, asked,
      request.has_num_words() ? std::optional<int>(request.num_words()) : std::nullopt);
}

absl::StatusOr<v1::TaskLayerChoices> ChoicesOf(LanguageModel& model, const TaskPrompts& task) {
  v1::TaskLayerChoices result;
  result.set_task(task.task);
  result.set_num_prompts(std::ssize(task.prompts));
  std::map<int, std::vector<double>> shares;  // by mixing layer
  for (const std::vector<int32_t>& prompt : task.prompts) {
    ASSIGN_OR_RETURN(const std::vector<LayerChoiceCounts> choices,
                     PromptLayerChoices(model, prompt));
    for (const LayerChoiceCounts& layer : choices) {
      std::vector<double>& sums = shares[layer.layer];
      sums.resize(layer.counts.size());
      const auto total = static_cast<double>(
          std::accumulate(layer.counts.begin(), layer.counts.end(), int64_t{0}));
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] += static_cast<double>(layer.counts[i]) / total;
      }
    }
  }
  for (const auto& [layer, sums] : shares) {
    v1::LayerChoices* const choices = result.add_layers();
    choices->set_layer(layer);
    for (const double sum : sums) {
      choices->add_shares(sum / static_cast<double>(std::ssize(task.prompts)));
    }
  }
  return result;
}

absl::Status CheckMixesForTasks(const v1::AnalyzeLayersRequest& request,
                                const v1::ModelConfig& model) {
  if (request.tasks().empty() || !MixesNothing(model)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "tasks: their prompts show which layers a model mixes, but this model mixes none "
      "(model.layer_mixing); leave tasks out, or choose a model that mixes layers");
}

}  // namespace

absl::StatusOr<v1::ProbeResult> ProbeLayers(
    LanguageModel& model, const ProbeSentences& sentences, const LayerProbeOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress) {
  ASSIGN_OR_RETURN(const EncodedSentences encoded,
                   EncodeAll(sentences, options, model.config().sequence_length()));
  ASSIGN_OR_RETURN(const auto outputs, OutputsOf(model, encoded, options.skipped, progress));
  const std::vector<int32_t> labels = LabelsOf(sentences.training);
  const std::vector<int32_t> expected = LabelsOf(sentences.test);
  const int64_t width = model.config().d_model(), layers = std::ssize(outputs);
  std::vector<int64_t> correct(layers);
  InThreads(options.num_threads, layers, [&](int64_t layer) {
    const std::span<const float> all = outputs[layer];
    const std::vector<int32_t> predicted = PredictLabels({all.first(labels.size() * width), labels},
                                                         all.subspan(labels.size() * width),
                                                         {.num_classes = sentences.num_classes,
                                                          .width = width,
                                                          .hidden_units = options.hidden_units,
                                                          .seed = options.seed});
    for (size_t i = 0; i < expected.size(); ++i) correct[layer] += predicted[i] == expected[i];
  });
  v1::ProbeResult result;
  result.set_name(sentences.name);
  result.set_num_classes(sentences.num_classes);
  result.set_num_training_sentences(std::ssize(labels));
  result.set_num_test_sentences(std::ssize(expected));
  std::vector<int64_t> counts(sentences.num_classes);
  for (const int32_t label : expected) ++counts[label];
  const auto tests = static_cast<double>(std::ssize(expected));
  result.set_majority(static_cast<double>(*std::ranges::max_element(counts)) / tests);
  for (int64_t layer = 0; layer < layers; ++layer) {
    v1::LayerProbe* const probe = result.add_layers();
    probe->set_layer(static_cast<int32_t>(layer) - 1);
    probe->set_accuracy(static_cast<double>(correct[layer]) / tests);
    *probe->mutable_interval() = WilsonInterval(correct[layer], std::ssize(expected));
  }
  return result;
}

absl::Status AnalyzeLayers(const v1::AnalyzeLayersRequest& request, const DocumentReader& reader,
                           const EmitLayersEvent& emit) {
  SetModelThreads(request.num_threads());
  RETURN_IF_ERROR(CheckLayersRequest(request));
  const std::vector<std::string> names(request.probes().begin(), request.probes().end());
  ASSIGN_OR_RETURN(const std::vector<Probe> probes, ProbesNamed(names));
  ASSIGN_OR_RETURN(const ModelPath path, FindModel(request.model(), request.strict()));
  RETURN_IF_ERROR(CheckOutputsFit(request, path.state.model));
  RETURN_IF_ERROR(CheckMixesForTasks(request, path.state.model));
  RETURN_IF_ERROR(CheckMixingInference(path.state.model));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(path.checkpoint / "tokenizer.model"));
  const std::vector<std::string> tasks(request.tasks().begin(), request.tasks().end());
  ASSIGN_OR_RETURN(const std::vector<TaskPrompts> prompts,
                   ReadTaskPrompts(tasks, request.tasks_dir(), path.state.model, *tokenizer));
  WordEncoder encoder(*tokenizer);
  const TextCodec codec = CodecOf(path.state.model, *tokenizer);
  const auto encode = [&](std::string_view text) {
    std::vector<int32_t> tokens = {codec.start_id.value_or(codec.eos_id)};
    encoder.Encode(text, &tokens);
    return tokens;
  };
  const LayerProbeOptions options = {.hidden_units = request.hidden_units(),
                                     .seed = request.seed(),
                                     .num_threads = request.num_threads(),
                                     .encode = encode,
                                     .skipped = 1};
  std::vector<ProbeSentences> labeled;
  if (!request.paths().empty()) {
    ASSIGN_OR_RETURN(
        labeled, SentencesOf(request, probes, reader, options, path.state.model.sequence_length()));
  }
  ASSIGN_OR_RETURN(const auto model, LoadModel(path.checkpoint, path.state.use_average));
  v1::LayerAnalysis analysis;
  int64_t read = 0;
  for (const ProbeSentences& sentences : labeled) {
    v1::AnalyzeLayersEvent event;
    event.set_probe(sentences.name);
    const auto progress = [&](int64_t done, int64_t total) {
      event.set_done(done);
      event.set_total(total);
      emit(event);
    };
    ASSIGN_OR_RETURN(*analysis.add_probes(), ProbeLayers(*model, sentences, options, progress));
    read += event.total();
  }
  for (const TaskPrompts& task : prompts) {
    ASSIGN_OR_RETURN(*analysis.add_choices(), ChoicesOf(*model, task));
  }
  analysis.set_num_sentences(read);
  EmitResult(request.model(), path, read, std::move(analysis), emit);
  return absl::OkStatus();
}

}  // namespace braid
