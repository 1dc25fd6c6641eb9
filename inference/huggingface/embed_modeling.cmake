# cmake -DINPUT=modeling_braid.py -DOUTPUT=embedded_modeling.cc -P embed_modeling.cmake
# Writes the text behind ModelingBraid().
file(READ "${INPUT}" text)
file(WRITE "${OUTPUT}" "#include \"inference/huggingface/modeling_braid.h\"

namespace braid {

std::string_view ModelingBraid() { return R\"braid(${text})braid\"; }

}  // namespace braid
")
