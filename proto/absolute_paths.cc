#include "proto/absolute_paths.h"

#include "proto/message_texts.h"

namespace braid {

std::set<std::string> AbsolutePathsIn(const google::protobuf::Message& message) {
  std::set<std::string> paths;
  ForEachText(message, [&](const google::protobuf::FieldDescriptor&, const std::string& text) {
    if (text.starts_with('/')) paths.insert(text);
  });
  return paths;
}

}  // namespace braid
