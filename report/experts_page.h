// The page of an analysis of the units of experts.
#ifndef BRAID_REPORT_EXPERTS_PAGE_H_
#define BRAID_REPORT_EXPERTS_PAGE_H_

#include <string>

namespace braid::v1 {
class ExpertActivity;
}  // namespace braid::v1

namespace braid {

// Returns a self-contained page: shares of the activations in the chosen experts by layer, the
// experts that each domain and task chooses, and how choices change between checkpoints. `title`
// names the model, as plain text.
std::string RenderExpertsPage(const v1::ExpertActivity& activity, const std::string& title);

}  // namespace braid

#endif  // BRAID_REPORT_EXPERTS_PAGE_H_
