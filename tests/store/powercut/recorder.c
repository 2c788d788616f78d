/* Records what a process does to the files below $RECORD_ROOT, in order, to $RECORD_LOG: loaded with LD_PRELOAD, it sees
 * Python's, SQLite's and safetensors' writes alike. A write to file descriptor 1 is recorded as an acknowledgement.
 *
 * A record: 1 byte what, 8 bytes inode, 8 bytes offset or size, 4 bytes length, then as many bytes of data.
 *   C created under a path   W written at an offset   T cut to a size   S synced   D directory synced (data: its path)
 *   R renamed (data: old NUL new)   U unlinked (data: path)   A acknowledged
 * safetensors gives its file a name by a bare system call, which is not seen: the next record about it tells by the inode.
 * SQLite's -shm files are left out: nothing in them is meant to outlive the machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static const char *root;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void start(void) {
    if (log_fd >= 0 || root) return;
    root = getenv("RECORD_ROOT");
    const char *path = getenv("RECORD_LOG");
    if (root && path) log_fd = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int watched(const char *path) {
    size_t length = path ? strlen(path) : 0;
    if (log_fd < 0 || !path || strncmp(path, root, strlen(root))) return 0;
    return !(length > 4 && !strcmp(path + length - 4, "-shm"));
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0 && watched(path);
}

static uint64_t inode(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : found.st_ino;
}

static void record(char what, uint64_t ino, uint64_t at, const void *data, uint32_t length) {
    char head[21];
    head[0] = what;
    memcpy(head + 1, &ino, 8);
    memcpy(head + 9, &at, 8);
    memcpy(head + 17, &length, 4);
    struct iovec parts[2] = {{head, sizeof head}, {(void *)data, length}};
    if (REAL(writev)(log_fd, parts, 2) != (ssize_t)(sizeof head + length)) abort();
}

static int opened(const char *path, int flags, mode_t mode, int (*call)(const char *, int, ...)) {
    pthread_mutex_lock(&mutex);
    start();
    struct stat before;
    int was = watched(path) ? (stat(path, &before) ? 0 : 1) : -1;
    int fd = call(path, flags, mode);
    if (fd >= 0 && was == 0) record('C', inode(fd), 0, path, strlen(path));
    if (fd >= 0 && was == 1 && (flags & O_TRUNC)) record('T', inode(fd), 0, "", 0);
    pthread_mutex_unlock(&mutex);
    return fd;
}

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = va_arg(rest, mode_t);                               \
        va_end(rest);                                                     \
        return opened(path, flags, mode, (int (*)(const char *, int, ...))REAL(name)); \
    }
OPEN(open)
OPEN(open64)

static int openat_directory;
static int call_openat(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return REAL(openat)(openat_directory, path, flags, mode);
}

#define OPENAT(name)                                                      \
    int name(int directory, const char *path, int flags, ...) {           \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = va_arg(rest, mode_t);                               \
        va_end(rest);                                                     \
        if (directory != AT_FDCWD && path[0] != '/') return REAL(openat)(directory, path, flags, mode); \
        openat_directory = directory;                                     \
        return opened(path, flags, mode, call_openat);                    \
    }
OPENAT(openat)
OPENAT(openat64)

static void written(int fd, uint64_t at, const void *data, ssize_t length) {
    char path[PATH_MAX];
    if (length <= 0 || log_fd < 0) return;
    if (fd == 1) record('A', 0, 0, data, length);
    else if (path_of(fd, path)) record('W', inode(fd), at, data, length);
}

ssize_t write(int fd, const void *data, size_t length) {
    pthread_mutex_lock(&mutex);
    off_t end = lseek(fd, 0, (fcntl(fd, F_GETFL) & O_APPEND) ? SEEK_END : SEEK_CUR);
    ssize_t done = REAL(write)(fd, data, length);
    written(fd, end < 0 ? 0 : end, data, done);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    pthread_mutex_lock(&mutex);
    off_t end = lseek(fd, 0, SEEK_CUR);
    ssize_t done = REAL(writev)(fd, parts, count), left = done;
    for (int i = 0; i < count && left > 0; i++) {
        ssize_t part = left < (ssize_t)parts[i].iov_len ? left : (ssize_t)parts[i].iov_len;
        written(fd, end < 0 ? 0 : end, parts[i].iov_base, part);
        end += part;
        left -= part;
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

#define PWRITE(name)                                                      \
    ssize_t name(int fd, const void *data, size_t length, off_t at) {     \
        pthread_mutex_lock(&mutex);                                       \
        ssize_t done = REAL(name)(fd, data, length, at);                  \
        written(fd, at, data, done);                                      \
        pthread_mutex_unlock(&mutex);                                     \
        return done;                                                      \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define TRUNCATE(name)                                                    \
    int name(int fd, off_t size) {                                        \
        char path[PATH_MAX];                                              \
        pthread_mutex_lock(&mutex);                                       \
        int done = REAL(name)(fd, size);                                  \
        if (!done && log_fd >= 0 && path_of(fd, path)) record('T', inode(fd), size, "", 0); \
        pthread_mutex_unlock(&mutex);                                     \
        return done;                                                      \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(name)                                                        \
    int name(int fd) {                                                    \
        char path[PATH_MAX];                                              \
        struct stat found;                                                \
        pthread_mutex_lock(&mutex);                                       \
        int done = REAL(name)(fd);                                        \
        if (!done && log_fd >= 0 && path_of(fd, path) && !fstat(fd, &found)) \
            record(S_ISDIR(found.st_mode) ? 'D' : 'S', found.st_ino, 0, path, strlen(path)); \
        pthread_mutex_unlock(&mutex);                                     \
        return done;                                                      \
    }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
    char both[2 * PATH_MAX];
    pthread_mutex_lock(&mutex);
    int done = REAL(rename)(from, to);
    if (!done && watched(from)) {
        struct stat found;
        int length = snprintf(both, sizeof both, "%s%c%s", from, 0, to);
        record('R', stat(to, &found) ? 0 : found.st_ino, 0, both, length);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

int unlink(const char *path) {
    pthread_mutex_lock(&mutex);
    int done = REAL(unlink)(path);
    if (!done && watched(path)) record('U', 0, 0, path, strlen(path));
    pthread_mutex_unlock(&mutex);
    return done;
}
