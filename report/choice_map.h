// A heat map of how often mixing layers choose each layer.
#ifndef BRAID_REPORT_CHOICE_MAP_H_
#define BRAID_REPORT_CHOICE_MAP_H_

#include <string>

#include "braid/v1/model.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace braid {

// Returns a figure with the shares of each mixing layer (rows) by chosen layer (columns). `caption`
// is HTML, `description` plain text.
std::string RenderChoiceMap(const std::string& caption, const std::string& description,
                            const google::protobuf::RepeatedPtrField<v1::LayerChoices>& layers);

// Returns the legend of these maps.
std::string RenderChoiceScale();

}  // namespace braid

#endif  // BRAID_REPORT_CHOICE_MAP_H_
