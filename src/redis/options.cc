#include "redis/options.h"

namespace dovetail::redis {

namespace {

// Whether one of dovetail's headers has this name.
bool is_of_format(std::string_view name) {
  return name.starts_with(kRedisDialect.attribute_prefix) ||
         name == kRedisDialect.content_type_header;
}

}  // namespace

Status check(const Options& options) {
  if (options.payload_field.empty() || options.key_header.empty() ||
      options.payload_field == options.key_header)
    return fail(Errc::rejected, "payload_field and key_header must differ; change one of them");
  for (const std::string& field : {options.payload_field, options.key_header}) {
    if (is_of_format(field))
      return fail(Errc::rejected,
                  "the field \"" + field +
                      "\" has the name of a header of the message format; change payload_field "
                      "or key_header");
    for (const auto& header : options.message.headers)
      if (header.first == field)
        return fail(Errc::rejected,
                    "the header \"" + field +
                        "\" has the name of a field; rename the header, or change payload_field "
                        "or key_header");
  }
  if (!options.message.partition.empty())
    return fail(Errc::rejected, "a Redis stream has no partitions; remove `partition`");
  const Result<MessageWriter> writer = MessageWriter::make(options.message, kRedisDialect);
  if (!writer) return fail(writer.error());
  return {};
}

}  // namespace dovetail::redis
