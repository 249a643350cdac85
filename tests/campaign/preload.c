/* Preloaded into the processes of a campaign (preload.py): their clock is off, they get no memory, and files under a
   directory fail or are slow, as a page of memory says that the campaign writes. Monotonic clocks, sockets and all other
   files are as ever. What each fsync has put on the disk is noted, so that a power cut can take the rest (power.py).

   Not seen: what libc itself calls (stdio's writes), and writes to mapped files. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct page { /* as Page in preload.py */
  int64_t clock_off_ns;
  int64_t clock_reads; /* while it is off */
  int32_t error;       /* errno of each write; 0: none */
  int32_t delay_ms;    /* of each write */
  int64_t refused;
  int64_t delayed;
  int64_t memory_short; /* process id whose requests for memory are refused; not that of its restart */
  int64_t memory_asked;
  int64_t memory_refused;
  char directory[1024];
};

static struct page nothing;
static struct page *page = &nothing;

struct flushed { /* as FLUSH in preload.py: the file's number, and the bytes of it that are on the disk */
  uint64_t inode;
  int64_t size;
};

static int flushes = -1; /* the file that notes them */

__attribute__((constructor)) static void map_page(void) {
  const char *noted = getenv("CAMPAIGN_FLUSHES");
  if (noted) flushes = open(noted, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const char *file = getenv("CAMPAIGN_PAGE");
  int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) page = mapped;
}

#define NOW(member) __atomic_load_n(&page->member, __ATOMIC_RELAXED)
#define COUNT(member) __atomic_fetch_add(&page->member, 1, __ATOMIC_RELAXED)

/* Declares `next`: the function of this name that would be called without this library. */
#define NEXT(name)                                                                                                     \
  static __typeof__(&name) next;                                                                                       \
  if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* ---- clock ---- */

static const int64_t SECOND = 1000000000;

static void shift(struct timespec *time, int64_t by_ns) {
  int64_t ns = time->tv_sec * SECOND + time->tv_nsec + by_ns;
  time->tv_sec = ns / SECOND;
  time->tv_nsec = ns % SECOND;
}

static int64_t off(void) {
  int64_t by = NOW(clock_off_ns);
  if (by) COUNT(clock_reads);
  return by;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  NEXT(clock_gettime);
  int answer = next(clock, time);
  if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(time, off());
  return answer;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  NEXT(gettimeofday);
  int answer = next(time, zone);
  if (answer == 0) {
    struct timespec fine = {time->tv_sec, time->tv_usec * 1000};
    shift(&fine, off());
    time->tv_sec = fine.tv_sec;
    time->tv_usec = fine.tv_nsec / 1000;
  }
  return answer;
}

time_t time(time_t *into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}

/* The kernel waits by the true clock: deadlines are given to it in true time. Those of monotonic clocks are small. */
#define TRUE_DEADLINE(deadline)                                                                                        \
  struct timespec until = *(deadline);                                                                                 \
  if (until.tv_sec > 1000000000) shift(&until, -NOW(clock_off_ns))

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
  NEXT(sem_timedwait);
  TRUE_DEADLINE(deadline);
  return next(semaphore, &until);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
  static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!next) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"); /* an older one lies beside it */
  if (!next) next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  TRUE_DEADLINE(deadline);
  return next(condition, mutex, &until);
}

/* ---- memory ---- */

static const size_t LARGE = 2048;
static const int64_t REFUSED = 8; /* one of so many large requests */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *memory, size_t size);

static int is_refused(size_t size) {
  if (size < LARGE || !NOW(memory_short) || NOW(memory_short) != getpid()) return 0;
  if (COUNT(memory_asked) % REFUSED) return 0;
  COUNT(memory_refused);
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) { return is_refused(size) ? NULL : __libc_malloc(size); }

void *calloc(size_t number, size_t size) {
  size_t all;
  if (__builtin_mul_overflow(number, size, &all)) all = SIZE_MAX;
  return is_refused(all) ? NULL : __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) { return is_refused(size) ? NULL : __libc_realloc(memory, size); }

/* ---- files ---- */

static int is_inside(const char *path) {
  size_t length = strnlen(page->directory, sizeof page->directory);
  return length && strncmp(path, page->directory, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_quiet(void) { return !NOW(error) && !NOW(delay_ms); }

/* Delays; returns true, with errno, if the operation fails. */
static int fails(const char *path) {
  if (!is_inside(path)) return 0;
  int ms = NOW(delay_ms), error = NOW(error);
  if (ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    COUNT(delayed);
    nanosleep(&pause, NULL);
  }
  if (error) {
    COUNT(refused);
    errno = error;
  }
  return error != 0;
}

static void path_of(int fd, char path[PATH_MAX]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length > 0 ? length : 0] = 0;
}

static int fd_fails(int fd) {
  if (is_quiet()) return 0;
  char path[PATH_MAX];
  int before = errno;
  path_of(fd, path);
  errno = before;
  return fails(path);
}

/* Returns true if a file cannot be created: one that exists can be opened. */
static int creation_fails(int directory, const char *name, int flags) {
  if (!(flags & O_CREAT) || is_quiet() || faccessat(directory, name, F_OK, 0) == 0) return 0;
  char path[PATH_MAX];
  size_t length = 0;
  if (name[0] != '/') {
    if (directory != AT_FDCWD) path_of(directory, path);
    else if (!getcwd(path, sizeof path)) return 0;
    length = strlen(path);
  }
  snprintf(path + length, sizeof path - length, "%s%s", length ? "/" : "", name);
  return fails(path);
}

#define MODE(flags)                                                                                                    \
  mode_t mode = 0;                                                                                                     \
  if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                                                                              \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode = va_arg(rest, mode_t);                                                                                       \
    va_end(rest);                                                                                                      \
  }

#define OPEN(name)                                                                                                     \
  int name(const char *path, int flags, ...) {                                                                         \
    NEXT(name);                                                                                                        \
    MODE(flags);                                                                                                       \
    return creation_fails(AT_FDCWD, path, flags) ? -1 : next(path, flags, mode);                                       \
  }

#define OPENAT(name)                                                                                                   \
  int name(int directory, const char *path, int flags, ...) {                                                          \
    NEXT(name);                                                                                                        \
    MODE(flags);                                                                                                       \
    return creation_fails(directory, path, flags) ? -1 : next(directory, path, flags, mode);                           \
  }

#define OF_FILE(type, name, declared, given)                                                                           \
  type name declared {                                                                                                 \
    NEXT(name);                                                                                                        \
    return fd_fails(fd) ? -1 : next given;                                                                             \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OF_FILE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
OF_FILE(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
OF_FILE(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
OF_FILE(ssize_t, writev, (int fd, const struct iovec *data, int number), (fd, data, number))
OF_FILE(ssize_t, pwritev, (int fd, const struct iovec *data, int number, off_t at), (fd, data, number, at))
OF_FILE(ssize_t, pwritev64, (int fd, const struct iovec *data, int number, off64_t at), (fd, data, number, at))
/* The size before the call: what is written meanwhile may not be on the disk after it. */
#define FLUSH(name)                                                                                                    \
  int name(int fd) {                                                                                                   \
    NEXT(name);                                                                                                        \
    struct stat file;                                                                                                  \
    int is_noted = flushes >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode);                                     \
    int answer = fd_fails(fd) ? -1 : next(fd);                                                                         \
    if (answer == 0 && is_noted) {                                                                                     \
      static ssize_t (*append)(int, const void *, size_t);                                                             \
      if (!append) append = dlsym(RTLD_NEXT, "write");                                                                 \
      struct flushed note = {file.st_ino, file.st_size};                                                               \
      if (append(flushes, &note, sizeof note) != sizeof note) abort(); /* a cut would take too much */                 \
    }                                                                                                                  \
    return answer;                                                                                                     \
  }

FLUSH(fsync)
FLUSH(fdatasync)
OF_FILE(int, ftruncate, (int fd, off_t size), (fd, size))
OF_FILE(int, ftruncate64, (int fd, off64_t size), (fd, size))
OF_FILE(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
OF_FILE(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size))
