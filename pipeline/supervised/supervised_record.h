// One example of supervised data as text: the turns of a conversation and where they come from.
#ifndef BRAID_PIPELINE_SUPERVISED_SUPERVISED_RECORD_H_
#define BRAID_PIPELINE_SUPERVISED_SUPERVISED_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "formats/chat_template.h"

namespace braid {

struct SupervisedRecord {
  // Source of the record: "alpaca.jsonl:12", with the line where it begins.
  std::string place;
  // At most one system turn, the first; then users and the assistant alternate. The last turn is an
  // answer.
  std::vector<ChatTurn> turns;
  // Prompt and answer join as they are, as in completion data and tasks.
  bool literal = false;
  // Index of its source in a RecordSet.
  int32_t source = 0;
};

// An example that is not trained on. Reasons are counted; equal faults have equal reasons.
struct RejectedRecord {
  std::string place;
  std::string reason;  // "empty answer"
  std::string detail;  // got, expected; may be empty
};

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_SUPERVISED_RECORD_H_
