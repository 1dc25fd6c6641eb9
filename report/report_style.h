// The style sheet of the report page.
#ifndef BRAID_REPORT_REPORT_STYLE_H_
#define BRAID_REPORT_REPORT_STYLE_H_

namespace braid {

// Light by default, dark if the browser of the reader asks for it. Series have the color classes
// c0 ... c7.
extern const char kReportStyle[];

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_STYLE_H_
