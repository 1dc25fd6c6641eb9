#include "tests/pipeline/corpus/malformed_files.h"

#include <cstdint>
#include <utility>

#include "tests/base/crafted_files.h"

namespace braid {
namespace {

using Table = std::vector<MalformedFile>;

constexpr char kBefore[] = R"({"id": "before", "text": "one"})"
                           "\n";
constexpr char kAfter[] = R"({"id": "after", "text": "two"})"
                          "\n";

// Makes a string of a literal that contains zero bytes.
template <size_t n>
std::string Bytes(const char (&literal)[n]) {
  return {literal, n - 1};
}

std::string Repeat(const std::string& part, int times) {
  std::string whole;
  for (int i = 0; i < times; ++i) whole += part;
  return whole;
}

std::string Text(const std::string& text) { return R"({"id": "x", "text": ")" + text + "\"}"; }
std::string Field(const std::string& json) { return R"({"id": "x", "text": )" + json + "}"; }
std::string GoodLines() { return std::string(kBefore) + kAfter; }

// Puts a record between two good ones. It gives a document itself when `rejects` is empty.
void AddRecord(Table* table, const std::string& kind, const std::string& name,
               const std::string& record, const std::string& rejects = "") {
  table->push_back(
      {kind, name + ".jsonl", kBefore + record + "\n" + kAfter, rejects.empty() ? 3 : 2, rejects});
}

void AddRecords(Table* table, const std::string& kind, const std::vector<std::string>& records,
                const std::string& rejects) {
  for (size_t i = 0; i < records.size(); ++i) {
    AddRecord(table, kind, "record" + std::to_string(i), records[i], rejects);
  }
}

void AddUtf8(Table* table) {
  const std::string reject = "invalid utf-8 1";
  AddRecords(table, "overlong utf-8",
             {Text("\xC0\x80"), Text("\xC1\xBF"), Text("\xE0\x80\xAF"), Text("\xF0\x80\x80\xAF"),
              Text("\xF8\x88\x80\x80\x80")},
             reject);
  AddRecords(table, "utf-8 beyond unicode",
             {Text("\xF4\x90\x80\x80"), Text("\xF5\x80\x80\x80"), Text("\xFF")}, reject);
  AddRecords(table, "cut utf-8",
             {Text("\xE2\x82"), Text("\xF0\x9F\x98"), Text("\x80"), Text("\xC3"), "{\"\xE2\x82"},
             reject);
  table->push_back({"cut utf-8", "end.txt", "caf\xC3", 0, reject});
  table->push_back({"latin-1", "latin1.txt", "caf\xE9 noir", 0, reject});
  AddRecord(table, "latin-1", "latin1", Text("caf\xE9"), reject);
  AddRecords(table, "lone surrogates",
             {Text(R"(\ud800)"), Text(R"(\udc00)"), Text(R"(\udc00\ud800)"), Text(R"(\ud800x)"),
              R"({"id": "\ud800", "text": "a"})"},
             "invalid json 1");
  AddRecord(table, "lone surrogates", "raw", Text("\xED\xA0\x80"), reject);
  AddRecord(table, "lone surrogates", "pair", Text(R"(\ud83d\ude00)"));
}

void AddNulAndByteOrderMarks(Table* table) {
  AddRecord(table, "nul", "raw", Text(Bytes("a\0b")), "invalid json 1");
  AddRecord(table, "nul", "line", Bytes("\0\0\0"), "invalid json 1");
  AddRecord(table, "nul", "escaped", Text(R"(a\u0000b)"));
  table->push_back({"nul", "text.txt", Bytes("a\0b"), 0, "binary 1"});

  const std::string bom = "\xEF\xBB\xBF";
  table->push_back({"byte order mark", "utf8.jsonl", bom + GoodLines(), 2, ""});
  table->push_back({"byte order mark", "utf8.txt", bom + "text", 1, ""});
  table->push_back({"byte order mark", "only.txt", bom, 0, "empty 1"});
  table->push_back(
      {"byte order mark", "twice.jsonl", bom + bom + GoodLines(), 1, "invalid json 1"});
  AddRecord(table, "byte order mark", "inside", bom + Text("a"), "invalid json 1");
  const std::pair<const char*, std::string> wide[] = {
      {"utf16le", Bytes("\xFF\xFE{\0}\0\n\0")},
      {"utf16be", Bytes("\xFE\xFF\0{\0}\0\n")},
      {"utf32le", Bytes("\xFF\xFE\0\0{\0\0\0}\0\0\0\n\0\0\0")},
      {"utf32be", Bytes("\0\0\xFE\xFF\0\0\0{\0\0\0}\0\0\0\n")}};
  for (const auto& [name, bytes] : wide) {
    for (const char* extension : {".jsonl", ".txt"}) {
      table->push_back(
          {"utf-16 and utf-32", std::string(name) + extension, bytes, 0, "utf-16 or utf-32 1"});
    }
  }
}

void AddWhiteSpaceAndLineEnds(Table* table) {
  table->push_back({"empty file", "nothing.jsonl", "", 0, ""});
  table->push_back({"empty file", "nothing.txt", "", 0, "empty 1"});
  table->push_back({"empty file", "nothing.jsonl.gz", "", 0, "damaged 1"});
  table->push_back({"empty file", "nothing.jsonl.zst", "", 0, "damaged 1"});
  table->push_back({"empty file", "empty_member.jsonl.gz", Gzip(""), 0, ""});
  table->push_back({"empty file", "empty_frame.txt.zst", Zstd(""), 0, "empty 1"});
  table->push_back({"white space only", "lines.jsonl", " \n\t\n\r\n\n", 0, ""});
  table->push_back({"white space only", "text.txt", " \n\t\v\f\r\n", 0, "empty 1"});
  AddRecord(table, "white space only", "record", Text(R"( \n\t)"), "empty 1");
  table->push_back(
      {"line ends", "crlf.jsonl", "{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\"}\r\n", 2, ""});
  table->push_back(
      {"line ends", "cr.jsonl", "{\"text\": \"a\"}\r{\"text\": \"b\"}\r", 0, "invalid json 1"});
  table->push_back({"line ends", "open.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}", 2, ""});
  table->push_back(
      {"line ends", "cut.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b", 1, "invalid json 1"});
  table->push_back({"line ends", "newline.jsonl", "\n", 0, ""});
  AddRecord(table, "line ends", "in_string", "{\"text\": \"a\nb\"}", "invalid json 2");
}

void AddJson(Table* table) {
  for (const int depth : {1025, 100'000, 1'000'000}) {
    const std::string nested = Repeat("[", depth) + Repeat("]", depth);
    AddRecord(table, "deep json", std::to_string(depth), Field(nested), "nested too deep 1");
  }
  AddRecord(table, "deep json", "objects", Repeat("{\"a\":", 5000) + "1" + Repeat("}", 5000),
            "nested too deep 1");
  AddRecord(table, "deep json", "open", Repeat("[", 100'000), "invalid json 1");
  AddRecord(table, "deep json", "allowed",
            R"({"text": "a", "deep": )" + Repeat("[", 1000) + Repeat("]", 1000) + "}");

  AddRecord(table, "duplicate keys", "text", R"({"text": "first", "text": "second"})");
  AddRecord(table, "duplicate keys", "second_is_text", R"({"text": 1, "text": "second"})",
            "missing text field 1");
  AddRecord(table, "duplicate keys", "escaped", R"({"text": "first", "\u0074ext": 2})");
  AddRecord(table, "duplicate ids", "string", R"({"id": "before", "text": "x"})", "duplicate id 1");
  AddRecord(table, "duplicate ids", "number",
            "{\"id\": 7, \"text\": \"x\"}\n"
            "{\"id\": \"7\", \"text\": \"y\"}",
            "duplicate id 1");
  table->back().documents = 3;

  AddRecords(table, "huge numbers",
             {Field("1e999"), Field("-1e999"), Field("1" + std::string(400, '0')),
              R"({"text": "a", "n": 123456789012345678901234567890})"},
             "invalid json 1");
  AddRecord(table, "huge numbers", "int64", R"({"id": 18446744073709551615, "text": "a"})");
  AddRecord(table, "huge numbers", "digits",
            R"({"n": 0.)" + std::string(5000, '1') + R"(, "text": "a"})");
  AddRecords(table, "not an object", {R"(["text"])", R"("text")", "12", "null", "true", "[]"},
             "not an object 1");
  AddRecords(table, "text of another type",
             {Field("7"), Field("null"), Field("true"), Field("[\"a\"]"), Field("{\"a\": \"b\"}")},
             "missing text field 1");
  AddRecords(table, "text missing", {"{}", R"({"id": "x"})", R"({"TEXT": "a"})"},
             "missing text field 1");
  AddRecord(table, "text empty", "record", Text(""), "empty 1");
  AddRecords(table, "invalid json",
             {R"({"text": "cut)", R"({"text": "a"}{"text": "b"})", R"({"text": "a",})",
              "{'text': 'a'}", R"({"text": "a", "n": NaN})", "{text: \"a\"}", Text("\t"),
              Text(R"(\q)"), Text(R"(\u12g4)"), R"({"text": "a"} // note)", R"({"text" "a"})", "{",
              "}", "\"", "\\", R"({"text": "a", "n": 01})", R"({"text": "a", "n": tru})"},
             "invalid json 1");
}

void AddCompressed(Table* table) {
  const std::string good = GoodLines(), gzip = Gzip(good), zstd = Zstd(good);
  const std::string one = Gzip(kBefore), two = Gzip(kAfter);
  const std::string skippable = Bytes("\x50\x2a\x4d\x18\x03\0\0\0abc");
  table->push_back({"several members", "two.jsonl.gz", one + two, 2, ""});
  table->push_back({"several members", "empty_between.jsonl.gz", one + Gzip("") + two, 2, ""});
  table->push_back({"several members", "cut_record.jsonl.gz",
                    Gzip(good.substr(0, 40)) + Gzip(good.substr(40)), 2, ""});
  table->push_back({"several frames", "two.jsonl.zst", Zstd(kBefore) + Zstd(kAfter), 2, ""});
  table->push_back({"several frames", "cut_record.jsonl.zst",
                    Zstd(good.substr(0, 40)) + Zstd(good.substr(40)), 2, ""});
  table->push_back({"skippable frames", "around.jsonl.zst", skippable + zstd + skippable, 2, ""});
  table->push_back({"skippable frames", "only.jsonl.zst", skippable, 0, ""});
  table->push_back(
      {"skippable frames", "cut.jsonl.zst", zstd + skippable.substr(0, 9), 2, "damaged 1"});
  table->push_back({"trailing garbage", "text.jsonl.gz", gzip + "garbage", 2, "damaged 1"});
  table->push_back({"trailing garbage", "text.jsonl.zst", zstd + "garbage", 2, "damaged 1"});
  table->push_back({"trailing garbage", "record.jsonl.gz", gzip + good, 2, "damaged 1"});
  table->push_back({"trailing garbage", "zeros.jsonl.gz", gzip + std::string(999, '\0'), 2, ""});
  table->push_back(
      {"trailing garbage", "zeros.jsonl.zst", zstd + std::string(999, '\0'), 2, "damaged 1"});
  table->push_back({"wrong extension", "plain.jsonl.gz", good, 0, "damaged 1"});
  table->push_back({"wrong extension", "plain.txt.zst", "text", 0, "damaged 1"});
  table->push_back({"wrong extension", "gzip.jsonl", gzip, 2, ""});
  table->push_back({"wrong extension", "gzip.jsonl.zst", gzip, 2, ""});
  table->push_back({"wrong extension", "zstd.jsonl.gz", zstd, 2, ""});
  table->push_back({"wrong extension", "text.jsonl", "just text\n", 0, "invalid json 1"});
}

void AddDamagedArchives(Table* table) {
  const auto flipped = [](std::string bytes, size_t at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  const std::string gzip = Gzip(GoodLines()), zstd = ZstdWithChecksum(GoodLines());
  const size_t end = gzip.size();
  const auto add = [&](const char* kind, const char* name, const std::string& bytes, int documents,
                       const char* rejects = "damaged 1") {
    table->push_back({kind, name, bytes, documents, rejects});
  };
  add("checksum flipped", "crc.jsonl.gz", flipped(gzip, end - 8), 2);
  add("checksum flipped", "length.jsonl.gz", flipped(gzip, end - 4), 2);
  add("checksum flipped", "xxh64.jsonl.zst", flipped(zstd, zstd.size() - 1), 2);
  add("checksum flipped", "first_member.jsonl.gz", flipped(gzip, end - 8) + Gzip(kAfter), 2);
  add("header damaged", "method.jsonl.gz", flipped(gzip, 2), 0);
  add("header damaged", "flags.jsonl.gz", Bytes("\x1f\x8b\x08\xe0") + gzip.substr(4), 0);
  add("header damaged", "magic.jsonl.gz", flipped(gzip, 1), 0);
  add("header damaged", "magic.jsonl.zst", flipped(zstd, 3), 0);
  add("header damaged", "reserved.jsonl.zst", flipped(zstd, 4).replace(4, 1, "\x0c"), 0);
  // Requires dictionary 7.
  add("header damaged", "dictionary.jsonl.zst", Bytes("\x28\xb5\x2f\xfd\x21\x07\x02\x11\0\0hi"), 0);
  // A window of 2^41 bytes; one of 2^31 bytes that is almost unused.
  add("huge window", "refused.jsonl.zst", Bytes("\x28\xb5\x2f\xfd\0\xf8\x11\0\0hi"), 0);
  add("huge window", "allowed.jsonl.zst",
      Bytes("\x28\xb5\x2f\xfd\0\xa8\x71\0\0{\"text\": \"a\"}\n"), 1, "");
  add("one of a damaged kind", "text.txt.gz", gzip.substr(0, end / 2), 0);
  add("one of a damaged kind", "text.txt.zst", zstd.substr(0, zstd.size() / 2), 0);
}

void AddLongLines(Table* table) {
  // The test sets max_document_bytes to 1 MiB, so that lines may have 2 MiB.
  const std::string mebibyte(1 << 20, 'x');
  AddRecord(table, "long", "at_the_limit", Text(mebibyte));
  AddRecord(table, "long", "over_the_limit", Text(mebibyte + "x"), "too long 1");
  AddRecord(table, "long", "line", Text(Repeat(mebibyte, 3)), "too long 1");
  AddRecord(table, "long", "no_json", Repeat(mebibyte, 3), "too long 1");
  AddRecord(table, "long", "other_field",
            R"({"text": "a", "other": ")" + Repeat(mebibyte, 2) + "\"}", "too long 1");
  table->push_back({"long", "open.jsonl", kBefore + Repeat(mebibyte, 3), 1, "too long 1"});
  table->push_back({"long", "text.txt", mebibyte + "x", 0, "too long 1"});
  table->push_back({"long", "text.txt.gz", Gzip(mebibyte + "x"), 0, "too long 1"});
  const std::string spaces(3 << 20, ' ');
  table->push_back({"bomb", "spaces.jsonl.gz", Gzip(GoodLines() + spaces), 2, "too long 1"});
}

}  // namespace

std::vector<MalformedFile> MalformedFiles() {
  Table table;
  AddUtf8(&table);
  AddNulAndByteOrderMarks(&table);
  AddWhiteSpaceAndLineEnds(&table);
  AddJson(&table);
  AddCompressed(&table);
  AddDamagedArchives(&table);
  AddLongLines(&table);
  return table;
}

}  // namespace braid
