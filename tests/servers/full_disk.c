// Loaded before a server (LD_PRELOAD), it makes a disk that is full: below the folder DOVETAIL_DISK no file grows and none
// is made while the file DOVETAIL_DISK_FULL exists, and who asks is told that no room is left. What overwrites room that a
// file already has goes through, as on a real disk. For the folder pg_wal below it, which may lie on a disk of its own, the
// file is DOVETAIL_DISK_LOG_FULL.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

static char disk[4096];
static char full[4096];
static char log_full[4096];

static void keep(char* place, const char* name) {
  const char* value = getenv(name);
  if (value != NULL) snprintf(place, 4096, "%s", value);
}

__attribute__((constructor)) static void start(void) {
  keep(disk, "DOVETAIL_DISK");
  keep(full, "DOVETAIL_DISK_FULL");
  keep(log_full, "DOVETAIL_DISK_LOG_FULL");
}

static int any_is_full(void) { return access(full, F_OK) == 0 || access(log_full, F_OK) == 0; }

// `path`: below the server's data folder, or relative to it, which is where the server works.
static int is_full(const char* path) {
  const size_t length = strlen(disk);
  if (length == 0) return 0;
  if (path[0] == '/') {
    if (strncmp(path, disk, length) != 0 || path[length] != '/') return 0;
    path += length + 1;
  }
  return access(strncmp(path, "pg_wal/", 7) == 0 ? log_full : full, F_OK) == 0;
}

static int no_room(int fd, off_t end) {
  const int before = errno;
  char link[64];
  char path[4096];
  struct stat file;
  int refused = 0;
  if (disk[0] != '\0' && any_is_full() && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && end > file.st_size) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
      path[length] = '\0';
      refused = path[0] == '/' && is_full(path);
    }
  }
  errno = refused ? ENOSPC : before;
  return refused;
}

static off_t behind(int fd, size_t length) {
  struct stat file;
  const off_t at = (fcntl(fd, F_GETFL) & O_APPEND) != 0 && fstat(fd, &file) == 0 ? file.st_size : lseek(fd, 0, SEEK_CUR);
  return at < 0 ? 0 : at + (off_t)length;
}

static off_t sum(const struct iovec* parts, int count) {
  off_t length = 0;
  for (int i = 0; i < count; ++i) length += (off_t)parts[i].iov_len;
  return length;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void* bytes, size_t length) {
  const int before = errno;
  if (any_is_full() && no_room(fd, behind(fd, length))) return -1;
  errno = before;
  return REAL(write)(fd, bytes, length);
}

ssize_t pwrite(int fd, const void* bytes, size_t length, off_t at) {
  return no_room(fd, at + (off_t)length) ? -1 : REAL(pwrite)(fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void* bytes, size_t length, off64_t at) {
  return no_room(fd, at + (off_t)length) ? -1 : REAL(pwrite64)(fd, bytes, length, at);
}

ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t at) {
  return no_room(fd, at + sum(parts, count)) ? -1 : REAL(pwritev)(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec* parts, int count, off64_t at) {
  return no_room(fd, at + sum(parts, count)) ? -1 : REAL(pwritev64)(fd, parts, count, at);
}

int posix_fallocate(int fd, off_t at, off_t length) {
  return no_room(fd, at + length) ? ENOSPC : REAL(posix_fallocate)(fd, at, length);
}

int posix_fallocate64(int fd, off64_t at, off64_t length) {
  return no_room(fd, at + length) ? ENOSPC : REAL(posix_fallocate64)(fd, at, length);
}

// Who asks how much room is left.
int statvfs(const char* path, struct statvfs* disk_of_path) {
  const int done = REAL(statvfs)(path, disk_of_path);
  if (done == 0 && any_is_full() && is_full(path)) disk_of_path->f_bavail = disk_of_path->f_bfree = 0;
  return done;
}

int statvfs64(const char* path, struct statvfs64* disk_of_path) {
  const int done = REAL(statvfs64)(path, disk_of_path);
  if (done == 0 && any_is_full() && is_full(path)) disk_of_path->f_bavail = disk_of_path->f_bfree = 0;
  return done;
}

int mkdir(const char* path, mode_t mode) {
  if (any_is_full() && is_full(path)) {
    errno = ENOSPC;
    return -1;
  }
  return REAL(mkdir)(path, mode);
}

static int is_new_and_refused(const char* path, int flags) {
  if ((flags & O_CREAT) == 0 || !any_is_full() || access(path, F_OK) == 0 || !is_full(path)) return 0;
  errno = ENOSPC;
  return 1;
}

static mode_t mode_of(int flags, va_list more) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? (mode_t)va_arg(more, int) : 0;
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return is_new_and_refused(path, flags) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return is_new_and_refused(path, flags) ? -1 : REAL(open64)(path, flags, mode);
}
