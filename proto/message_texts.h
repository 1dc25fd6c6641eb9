// Visits the texts of a message.
#ifndef BRAID_PROTO_MESSAGE_TEXTS_H_
#define BRAID_PROTO_MESSAGE_TEXTS_H_

#include <functional>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace braid {

using TextVisitor =
    std::function<void(const google::protobuf::FieldDescriptor& field, const std::string& text)>;

// Calls `visit` with every string (not bytes) that is set in `message` and in the messages within
// it, in order of field numbers.
inline void ForEachText(const google::protobuf::Message& message, const TextVisitor& visit) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && field->type() != FieldDescriptor::TYPE_STRING) continue;
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (is_message) {
        ForEachText(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                         : reflection.GetMessage(message, field),
                    visit);
      } else {
        visit(*field, field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                           : reflection.GetString(message, field));
      }
    }
  }
}

}  // namespace braid

#endif  // BRAID_PROTO_MESSAGE_TEXTS_H_
