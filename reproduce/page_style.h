// What the page of a reproduction adds to the style sheet of reports.
#ifndef BRAID_REPRODUCE_PAGE_STYLE_H_
#define BRAID_REPRODUCE_PAGE_STYLE_H_

namespace braid {

// Colours of verdicts, which text may have as well (4.5:1, WCAG 2.1, 1.4.3), and the layout of
// the list of claims.
extern const char kReproductionStyle[];

}  // namespace braid

#endif  // BRAID_REPRODUCE_PAGE_STYLE_H_
