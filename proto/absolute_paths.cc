#include "proto/absolute_paths.h"

#include <google/protobuf/descriptor.h>

#include <vector>

namespace braid {

std::set<std::string> AbsolutePathsIn(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  std::set<std::string> paths;
  const auto add = [&](const std::string& value) {
    if (value.starts_with('/')) paths.insert(value);
  };
  for (const FieldDescriptor* const field : fields) {
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && field->type() != FieldDescriptor::TYPE_STRING) continue;
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (is_message) {
        paths.merge(AbsolutePathsIn(field->is_repeated()
                                        ? reflection.GetRepeatedMessage(message, field, i)
                                        : reflection.GetMessage(message, field)));
      } else {
        add(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                 : reflection.GetString(message, field));
      }
    }
  }
  return paths;
}

}  // namespace braid
