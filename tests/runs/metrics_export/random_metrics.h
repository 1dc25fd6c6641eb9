// Metrics with a number in every field, for tests of exports, and an independent reader of exports.
#ifndef BRAID_TESTS_RUNS_METRICS_EXPORT_RANDOM_METRICS_H_
#define BRAID_TESTS_RUNS_METRICS_EXPORT_RANDOM_METRICS_H_

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "braid/v1/training.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

namespace braid {

inline void FillNumbers(google::protobuf::Message* message, std::mt19937_64* random) {
  using Field = google::protobuf::FieldDescriptor;
  std::lognormal_distribution<double> number(0, 4);
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const Field* field = message->GetDescriptor()->field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == Field::CPPTYPE_DOUBLE) {
      reflection->SetDouble(message, field, number(*random));
    } else if (field->cpp_type() == Field::CPPTYPE_INT64) {
      reflection->SetInt64(message, field, 1 + static_cast<int64_t>((*random)() >> 12));
    } else if (field->cpp_type() == Field::CPPTYPE_INT32) {
      reflection->SetInt32(message, field, 1 + static_cast<int32_t>((*random)() % 64));
    } else if (field->cpp_type() == Field::CPPTYPE_BOOL) {
      reflection->SetBool(message, field, true);
    } else if (field->cpp_type() == Field::CPPTYPE_ENUM) {
      reflection->SetEnumValue(message, field, 1);
    } else if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      FillNumbers(reflection->MutableMessage(message, field), random);
    }
  }
}

// Every fifth step measures routing; some of the layers 1, 3 and 12 are missing at random.
inline v1::StepMetrics RandomMetrics(int64_t step, std::mt19937_64* random) {
  v1::StepMetrics metrics;
  FillNumbers(&metrics, random);
  metrics.set_step(step);
  metrics.set_time(1.7e9 + 0.25 * static_cast<double>(step));
  for (const int layer : {1, 3, 12}) {
    if (step % 5 != 0 || (*random)() % 4 == 0) continue;
    v1::LayerRouting* routing = metrics.add_routing();
    FillNumbers(routing, random);
    routing->set_layer(layer);
    for (int e = 0; e < 4; ++e) routing->add_mean_weights(0.125 * ((*random)() % 4 + (e == 2)));
    // Layers of other routers have no loads.
    for (int e = 0; e < 4 && layer != 12; ++e) routing->add_load(0.125 * (1 + (*random)() % 4));
  }
  return metrics;
}

// Returns a line as the trainer writes it.
inline std::string JsonLine(const v1::StepMetrics& metrics) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string line;
  (void)google::protobuf::util::MessageToJsonString(metrics, &line, options);
  return line + "\n";
}

inline std::string RandomLines(int64_t first, int64_t last, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string lines;
  for (int64_t step = first; step <= last; ++step) lines += JsonLine(RandomMetrics(step, &random));
  return lines;
}

// Returns the exit status of event_reader.py, which prints differences to stderr.
inline int ReadWithoutUs(const std::string& command, const std::filesystem::path& exported,
                         const std::filesystem::path& metrics,
                         const std::filesystem::path& output = "/dev/null") {
  const std::string line = std::string("'") + BRAID_PYTHON + "' '" +
                           BRAID_TESTS_DIR "/runs/metrics_export/event_reader.py" + "' " + command +
                           " '" + exported.string() + "' '" + metrics.string() + "' > '" +
                           output.string() + "'";
  return std::system(line.c_str());
}

}  // namespace braid

#endif  // BRAID_TESTS_RUNS_METRICS_EXPORT_RANDOM_METRICS_H_
