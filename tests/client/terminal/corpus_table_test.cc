#include "client/terminal/corpus_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace braid {
namespace corpus_table_test {

v1::CorpusDescription Description() {
  v1::CorpusDescription corpus;
  const auto add = [&](const char* name, int64_t documents, int64_t bytes) {
    v1::CorpusDomain* domain = corpus.add_domains();
    domain->set_name(name);
    domain->set_num_documents(documents);
    domain->set_num_bytes(bytes);
  };
  add("code", 1200, 7'500'000);
  add("prose", 30, 2'500'000);
  corpus.set_domain_source(v1::DOMAIN_FROM_FIELD);
  corpus.set_num_field_documents(1230);
  corpus.set_num_documents(1230);
  corpus.set_num_bytes(10'000'000);
  return corpus;
}

std::string Printed(const v1::CorpusDescription& corpus, int64_t long_document_bytes) {
  std::ostringstream out;
  PrintCorpus(corpus, long_document_bytes, out);
  return out.str();
}

TEST(CorpusTableTest, ShowsDomainsAndTotal) {
  EXPECT_EQ(Printed(Description(), 0),
            "DOMAIN  DOCUMENTS     MB   SHARE\n"
            "code        1,200   7.50  75.0 %\n"
            "prose          30   2.50  25.0 %\n"
            "all         1,230  10.00\n"
            "\n"
            "domains from a field of each record\n"
            "no records rejected\n");
}

TEST(CorpusTableTest, ShowsLongDocumentsRejectsAndNotes) {
  v1::CorpusDescription corpus = Description();
  corpus.set_domain_source(v1::DOMAIN_FROM_PATH);
  corpus.set_num_field_documents(0);
  corpus.set_num_long_documents(4);
  corpus.set_num_long_bytes(1'000'000);
  for (const auto& [reason, count] : {std::pair("empty", 2), std::pair("invalid json", 1100)}) {
    v1::RejectCount* reject = corpus.add_rejects();
    reject->set_reason(reason);
    reject->set_count(count);
  }
  corpus.add_notes("no record has the field \"nope\"");
  const std::string printed = Printed(corpus, 16'384);
  EXPECT_EQ(printed.substr(printed.find("\n\n") + 2),
            "domains from names of files and directories\n"
            "4 documents of more than 16,384 bytes: 1.00 MB, 10.0 %\n"
            "records rejected\n"
            "  empty             2\n"
            "  invalid json  1,100\n"
            "note: no record has the field \"nope\"\n");
}

TEST(CorpusTableTest, ShowsHowManyDocumentsHaveTheField) {
  v1::CorpusDescription corpus = Description();
  corpus.set_domain_source(v1::DOMAIN_FROM_PATH);
  corpus.set_num_field_documents(1229);
  const std::string printed = Printed(corpus, 0);
  EXPECT_EQ(printed.substr(printed.find("\n\n") + 2),
            "domains of 1,229 documents from a field of their records, of 1 from names of files "
            "and directories\n"
            "no records rejected\n");
}

}  // namespace corpus_table_test
}  // namespace braid
