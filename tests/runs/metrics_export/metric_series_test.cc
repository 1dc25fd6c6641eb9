#include "runs/metrics_export/metric_series.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/runs/metrics_export/random_metrics.h"

namespace braid {
namespace metric_series_test {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Adds the paths of the numbers of a message, except those of repeated fields.
void AddPaths(const Descriptor& message, const std::string& prefix, std::set<std::string>* paths) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor* field = message.field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddPaths(*field->message_type(), prefix + std::string(field->name()) + ".", paths);
    } else {
      paths->insert(prefix + std::string(field->name()));
    }
  }
}

TEST(MetricSeriesTest, EveryNumberOfAStepIsASeriesOfItsFieldsName) {
  std::set<std::string> fields, series;
  AddPaths(*v1::StepMetrics::descriptor(), "", &fields);
  fields.erase("step");
  fields.erase("time");
  for (const StepSeries& one : AllStepSeries()) series.insert(one.column);
  EXPECT_EQ(series, fields);
}

TEST(MetricSeriesTest, EveryNumberOfALayerIsASeries) {
  std::set<std::string> fields, series;
  AddPaths(*v1::LayerRouting::descriptor(), "", &fields);
  fields.erase("layer");
  for (const LayerSeries& one : AllLayerSeries()) series.insert(one.name);
  EXPECT_EQ(series, fields);
}

TEST(MetricSeriesTest, EveryListOfALayerIsASeriesOfItsExperts) {
  std::set<std::string> fields, series;
  const Descriptor& layer = *v1::LayerRouting::descriptor();
  for (int i = 0; i < layer.field_count(); ++i) {
    if (layer.field(i)->is_repeated()) fields.insert(std::string(layer.field(i)->name()));
  }
  for (const ExpertSeries& one : AllExpertSeries()) series.insert(one.name);
  EXPECT_EQ(series, fields);
}

// Compares with reflection: other tests would not notice two exchanged getters.
TEST(MetricSeriesTest, ValuesAreThoseOfTheFields) {
  std::mt19937_64 random(1);
  v1::StepMetrics metrics = RandomMetrics(7, &random);
  std::map<std::string, double> values;
  for (const SeriesValue& value : ValuesOf(metrics)) values[ColumnOf(value.key)] = value.value;
  EXPECT_EQ(values.size(), AllStepSeries().size());
  for (const auto& [column, value] : values) {
    const size_t dot = column.find('.');
    const google::protobuf::Message* part = &metrics;
    if (dot != std::string::npos) {
      const auto* outer = metrics.GetDescriptor()->FindFieldByName(column.substr(0, dot));
      part = &metrics.GetReflection()->GetMessage(metrics, outer);
    }
    const google::protobuf::Message& holder = *part;
    const auto* field = holder.GetDescriptor()->FindFieldByName(
        dot == std::string::npos ? column : column.substr(dot + 1));
    ASSERT_NE(field, nullptr) << column;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      EXPECT_EQ(value, holder.GetReflection()->GetDouble(holder, field)) << column;
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      EXPECT_EQ(value, static_cast<double>(holder.GetReflection()->GetInt64(holder, field)))
          << column;
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      EXPECT_EQ(value, holder.GetReflection()->GetInt32(holder, field)) << column;
    } else {
      EXPECT_EQ(value, 1) << column;
    }
  }
}

TEST(MetricSeriesTest, WhatIsNotKnownIsLeftOut) {
  v1::StepMetrics metrics;
  metrics.set_step(1);
  std::set<std::string> columns;
  for (const SeriesValue& value : ValuesOf(metrics)) columns.insert(ColumnOf(value.key));
  EXPECT_EQ(columns, (std::set<std::string>{"loss", "learning_rate", "gradient_norm", "num_tokens",
                                            "upcycled", "tokens_per_second", "step_seconds"}));
}

// A loss of no token is stored as 0.
TEST(MetricSeriesTest, LossesAfterFirstSegmentsAreLeftOutWhereSequencesHaveOneSegment) {
  v1::StepMetrics metrics;
  metrics.set_loss(4);
  metrics.mutable_validation()->set_loss(5);
  const auto columns = [&] {
    std::set<std::string> found;
    for (const SeriesValue& value : ValuesOf(metrics)) found.insert(ColumnOf(value.key));
    return found;
  };
  EXPECT_TRUE(columns().contains("loss"));
  EXPECT_TRUE(columns().contains("validation.loss"));
  EXPECT_FALSE(columns().contains("loss_after_first_segment"));
  EXPECT_FALSE(columns().contains("validation.loss_after_first_segment"));
  metrics.set_loss_after_first_segment(3);
  metrics.mutable_validation()->set_loss_after_first_segment(2);
  EXPECT_TRUE(columns().contains("loss_after_first_segment"));
  EXPECT_TRUE(columns().contains("validation.loss_after_first_segment"));
}

TEST(MetricSeriesTest, NamesOfLayersAndExperts) {
  const LayerSeries& entropy = AllLayerSeries()[0];
  EXPECT_EQ(ColumnOf({.layer_series = &entropy, .layer = 3}), "routing.layer_3.entropy");
  EXPECT_EQ(TagOf({.layer_series = &entropy, .layer = 3}), "routing/layer_03/entropy");
  const auto column = [](size_t series) {
    return ColumnOf({.expert_series = &AllExpertSeries()[series], .layer = 12, .expert = 7});
  };
  EXPECT_EQ(column(0), "routing.layer_12.mean_weights.7");
  EXPECT_EQ(column(1), "routing.layer_12.load.7");
}

TEST(MetricSeriesTest, NamesAreUnique) {
  std::set<std::string> columns, tags;
  for (const StepSeries& one : AllStepSeries()) {
    EXPECT_TRUE(columns.insert(one.column).second) << one.column;
    EXPECT_TRUE(tags.insert(one.tag).second) << one.tag;
  }
}

}  // namespace metric_series_test
}  // namespace braid
