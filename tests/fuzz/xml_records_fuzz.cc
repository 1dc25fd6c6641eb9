#include "base/check.h"
#include "evaluation/tasks/xml_records.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(xml_records)() {
  return {
      "<?xml version=\"1.0\" encoding=\"UTF-8\" ?>\n<all>\n<p id=\"1\" x='&lt;&#233;'>\n<a>one "
      "&amp; "
      "<b>two</b></a><a/><c><![CDATA[<raw>]]></c><!-- no --></p>\n<p/><q><p><p>x</p></p></q></all>",
      "<!DOCTYPE p [<!ENTITY e \"e\">]><p>&e;</p>", "<p id='1'><id>2</id></p>",
      "<?xml version='1.0' encoding='ISO-8859-1'?><p a='\xE9'>\xE8</p>"};
}

}  // namespace braid

int FUZZ_INPUT(xml_records)(const uint8_t* data, size_t size) {
  const auto records =
      braid::ParseXmlRecords({reinterpret_cast<const char*>(data), size}, "x.xml", "p");
  if (!records.ok()) return 0;
  for (const braid::TaskRecord& record : *records) {
    BRAID_CHECK(record.where.starts_with("x.xml:")) << record.where;
    record.fields.dump();  // throws for texts that are not UTF-8
  }
  return 0;
}
