#include "host/temporary_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace dovetail {

namespace {

tl::unexpected<Error> failed(const char* doing) {
  return fail(Errc::unavailable, std::string("cannot ") + doing +
                                     " a temporary file: " + std::strerror(errno) +
                                     "; check the disk, or set TMPDIR to a folder with room");
}

}  // namespace

TemporaryFile::~TemporaryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status TemporaryFile::create() {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::temp_directory_path(ignored);
  if (const char* wanted = std::getenv("TMPDIR"); wanted != nullptr && *wanted != '\0')
    folder = wanted;
  std::string path = (folder / "dovetail_XXXXXX").string();
  descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0) return failed("make");
  ::unlink(path.c_str());
  return {};
}

Status TemporaryFile::append(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed("write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status TemporaryFile::read(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failed("read");
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace dovetail
