/* A slow disk: loaded with LD_PRELOAD, every write and sync of a file below $SLOW_ROOT takes $SLOW_MS milliseconds more
 * while the file $SLOW_SWITCH is there. Python, SQLite and safetensors write through these calls alike. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void wait_for_disk(int fd) {
    const char *root = getenv("SLOW_ROOT"), *on = getenv("SLOW_SWITCH"), *ms = getenv("SLOW_MS");
    char link[64], path[PATH_MAX];
    if (!root || !on || !ms || access(on, F_OK)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    if (strncmp(path, root, strlen(root)) || path[strlen(root)] != '/') return;
    long left = atol(ms);
    struct timespec pause = {left / 1000, left % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

#define SLOW(type, name, parameters, arguments)   \
    type name parameters {                        \
        wait_for_disk(fd);                        \
        return REAL(name) arguments;              \
    }
SLOW(ssize_t, write, (int fd, const void *data, size_t length), (fd, data, length))
SLOW(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
SLOW(ssize_t, pwrite, (int fd, const void *data, size_t length, off_t at), (fd, data, length, at))
SLOW(ssize_t, pwrite64, (int fd, const void *data, size_t length, off64_t at), (fd, data, length, at))
SLOW(int, ftruncate, (int fd, off_t size), (fd, size))
SLOW(int, fsync, (int fd), (fd))
SLOW(int, fdatasync, (int fd), (fd))
