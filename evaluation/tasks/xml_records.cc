#include "evaluation/tasks/xml_records.h"

#include <expat.h>

#include <cstdint>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

constexpr int kDeepestElement = 32;
// XML_Parse takes a length of type int.
constexpr size_t kBytesAtOnce = size_t{1} << 24;

// Collects records while expat calls it for each tag and text.
class XmlRecordReader {
 public:
  XmlRecordReader(const std::string& name, absl::string_view element)
      : name_(name), element_(element), parser_(XML_ParserCreate(nullptr)) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(
        parser_.get(),
        [](void* self, const char* tag, const char** attributes) {
          static_cast<XmlRecordReader*>(self)->Begin(tag, attributes);
        },
        [](void* self, const char*) { static_cast<XmlRecordReader*>(self)->End(); });
    XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* text, int size) {
      static_cast<XmlRecordReader*>(self)->AddText({text, static_cast<size_t>(size)});
    });
    XML_SetStartDoctypeDeclHandler(
        parser_.get(), [](void* self, const char*, const char*, const char*, int) {
          static_cast<XmlRecordReader*>(self)->Refuse(
              "got a document type declaration, expected none; remove it");
        });
  }

  absl::StatusOr<std::vector<TaskRecord>> Read(absl::string_view text) && {
    XML_Status status = XML_STATUS_OK;
    bool last = false;
    while (status == XML_STATUS_OK && !last) {
      const absl::string_view part = text.substr(0, kBytesAtOnce);
      text.remove_prefix(part.size());
      last = text.empty();
      status = XML_Parse(parser_.get(), part.data(), static_cast<int>(part.size()), last);
    }
    if (!error_.ok()) return error_;
    if (status == XML_STATUS_OK) return std::move(records_);
    return absl::InvalidArgumentError(absl::StrCat(
        Place(), ": not well-formed XML: ", XML_ErrorString(XML_GetErrorCode(parser_.get()))));
  }

 private:
  struct Freer {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };

  std::string Place() const {
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
    const uint64_t line = XML_GetCurrentLineNumber64(parser_.get());
#else
    const uint64_t line = XML_GetCurrentLineNumber(parser_.get());
#endif
    return absl::StrCat(name_, ":", line);
  }

  // Handlers may still be called once after this.
  void Refuse(absl::string_view message) {
    if (error_.ok()) error_ = absl::InvalidArgumentError(absl::StrCat(Place(), ": ", message));
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  void Begin(const char* tag, const char** attributes) {
    if (++depth_ > kDeepestElement) {
      Refuse(absl::StrCat("got elements nested deeper than ", kDeepestElement, ", expected fewer"));
    }
    if (!error_.ok()) return;
    if (record_depth_ == 0) {
      if (tag == element_) BeginRecord(attributes);
    } else if (depth_ == record_depth_ + 1) {
      child_ = tag;
      text_.clear();
    }
  }

  void BeginRecord(const char** attributes) {
    record_depth_ = depth_;
    records_.push_back({nlohmann::json::object(), Place()});
    attributes_.clear();
    for (; *attributes != nullptr; attributes += 2) {
      attributes_.insert(attributes[0]);
      records_.back().fields[attributes[0]] = attributes[1];
    }
  }

  void End() {
    if (error_.ok() && record_depth_ > 0 && depth_ == record_depth_ + 1) AddChild();
    if (depth_ == record_depth_) record_depth_ = 0;
    --depth_;
  }

  void AddChild() {
    if (attributes_.contains(child_)) {
      Refuse(absl::StrCat("got an attribute and an element named \"", child_, "\", expected one"));
      return;
    }
    nlohmann::json& fields = records_.back().fields;
    const auto there = fields.find(child_);
    if (there == fields.end()) {
      fields[child_] = std::move(text_);
    } else {
      if (!there->is_array()) *there = nlohmann::json::array({*there});
      there->push_back(std::move(text_));
    }
  }

  void AddText(std::string_view text) {
    if (record_depth_ > 0 && depth_ > record_depth_) text_ += text;
  }

  const std::string& name_;
  const absl::string_view element_;
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, Freer> parser_;
  int depth_ = 0;
  int record_depth_ = 0;  // depth of the current record; 0 outside of records
  std::string child_, text_;
  std::set<std::string> attributes_;  // names, of the current record
  std::vector<TaskRecord> records_;
  absl::Status error_;
};

}  // namespace

absl::StatusOr<std::vector<TaskRecord>> ParseXmlRecords(absl::string_view text,
                                                        const std::string& name,
                                                        absl::string_view element) {
  return XmlRecordReader(name, element).Read(text);
}

}  // namespace braid
