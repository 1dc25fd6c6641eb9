// The style sheet of the page of a reproduction, in addition to that of reports.
#ifndef BRAID_REPRODUCE_PAGE_STYLE_H_
#define BRAID_REPRODUCE_PAGE_STYLE_H_

namespace braid {

// Colors of verdicts, whose contrast suffices for text (4.5:1, WCAG 2.1, 1.4.3), and the layout of
// the list of claims.
extern const char kReproductionStyle[];

}  // namespace braid

#endif  // BRAID_REPRODUCE_PAGE_STYLE_H_
