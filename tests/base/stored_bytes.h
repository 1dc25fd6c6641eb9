// Messages with every field set, and every change of a byte, for tests of what is stored.
#ifndef BRAID_TESTS_BASE_STORED_BYTES_H_
#define BRAID_TESTS_BASE_STORED_BYTES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"

namespace braid {

// Sets one field to a value that is not its default.
inline void FillField(const google::protobuf::FieldDescriptor& field,
                      google::protobuf::Message* message);

// Sets every field of a message, and of the messages in it.
inline void Fill(google::protobuf::Message* message) {
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    FillField(*message->GetDescriptor()->field(i), message);
  }
}

inline void FillField(const google::protobuf::FieldDescriptor& field,
                      google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const auto& reflection = *message->GetReflection();
  if (field.is_repeated()) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      reflection.AddString(message, &field, "text");
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection.AddInt32(message, &field, 3);
    } else if (field.message_type() != nullptr && !field.is_map()) {
      Fill(reflection.AddMessage(message, &field));
    }
    return;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(message, &field, 7 + field.number());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(message, &field, 70000 + field.number());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(message, &field, 5);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(message, &field, 500 + field.number());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(message, &field, 0.006);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(message, &field, 0.5F);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(message, &field, true);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(message, &field, 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(message, &field, absl::StrCat("text-", field.number()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(reflection.MutableMessage(message, &field));
  }
}

// Calls `check` with every version of `bytes` that has one byte changed: each by one bit, and by
// another bit or several, as chosen by the position.
inline void ForEachChange(const std::string& bytes,
                          const std::function<void(const std::string& changed, size_t at)>& check) {
  ASSERT_FALSE(bytes.empty());
  for (size_t at = 0; at < bytes.size(); ++at) {
    const uint64_t random = Mix64(17, at);
    for (const int mask : {1 << (random % 8), static_cast<int>(1 + (random >> 8) % 255)}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ mask);
      check(changed, at);
    }
  }
}

}  // namespace braid

#endif  // BRAID_TESTS_BASE_STORED_BYTES_H_
