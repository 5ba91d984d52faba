file(READ ${INPUT} text)
get_filename_component(name ${INPUT} NAME)
file(WRITE ${OUTPUT} "// Generated from ${name}.
#pragma once
#include <string_view>
inline constexpr std::string_view ${VARIABLE} = R\"embedded(${text})embedded\";
")
