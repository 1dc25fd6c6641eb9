// The Python program that transformers loads exported expert models with.
#ifndef BRAID_INFERENCE_HUGGINGFACE_MODELING_BRAID_H_
#define BRAID_INFERENCE_HUGGINGFACE_MODELING_BRAID_H_

#include <string_view>

namespace braid {

// Name of the file in an export; config.json refers to its module and classes (auto_map).
inline constexpr char kModelingFile[] = "modeling_braid.py";

// Returns the content of modeling_braid.py beside this header, which is embedded in the program.
std::string_view ModelingBraid();

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_MODELING_BRAID_H_
