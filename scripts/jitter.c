/* Random delays before and after the calls in which processes meet: sockets, pipes, signals, waiting, starting, files
 * renamed into place. Loaded into every process of a test run by scripts/test_jitter.sh, it makes this machine as slow,
 * and as unlucky in its order of things, as somebody else's.
 *
 * Of a thousand calls, so many as the call's rate below are delayed, by up to 40 ms; every tenth delay is ten times as
 * long. STILLRUNS_JITTER=N multiplies the rates by N percent (100 when not set, 0 for none).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned percent = 100;

__attribute__((constructor)) static void start(void) {
    const char *wanted = getenv("STILLRUNS_JITTER");
    if (wanted) percent = (unsigned)strtoul(wanted, NULL, 10);
    /* A tracer waits at every call of the traced: it would only be slow. */
    if (!strcmp(program_invocation_short_name, "strace")) percent = 0;
}

static uint64_t next_random(void) {
    static __thread uint64_t state;
    if (!state) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        state = (uint64_t)now.tv_nsec * 2654435761u + (uint64_t)syscall(SYS_gettid) * 7919u + 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Async-signal-safe, and errno stays: it is called in forked children and signal handlers. */
static void delay(unsigned rate) {
    uint64_t random = next_random();
    if ((random >> 8) % 100000 >= (uint64_t)rate * percent) return;
    long milliseconds = (long)((random >> 30) % 40) * ((random >> 50) % 10 ? 1 : 10);
    struct timespec wait = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    int before = errno;
    syscall(SYS_nanosleep, &wait, NULL);
    errno = before;
}

#define DELAYED(type, name, parameters, arguments, rate)                          \
    type name parameters {                                                        \
        static type(*real) parameters;                                            \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);            \
        delay(rate);                                                              \
        type result = real arguments;                                             \
        delay(rate);                                                              \
        return result;                                                            \
    }

DELAYED(int, listen, (int fd, int queue), (fd, queue), 100)
DELAYED(int, bind, (int fd, const struct sockaddr *at, socklen_t size), (fd, at, size), 100)
DELAYED(int, connect, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), 100)
DELAYED(int, accept, (int fd, struct sockaddr *from, socklen_t *size), (fd, from, size), 100)
DELAYED(int, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags), (fd, from, size, flags), 100)
DELAYED(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags), 100)
DELAYED(ssize_t, sendto,
        (int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length),
        (fd, data, size, flags, to, length), 100)
DELAYED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), 100)
DELAYED(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags), 100)
DELAYED(ssize_t, recvfrom,
        (int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *length),
        (fd, data, size, flags, from, length), 100)
DELAYED(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout), 50)
DELAYED(int, kill, (pid_t process, int number), (process, number), 200)
DELAYED(pid_t, waitpid, (pid_t process, int *status, int options), (process, status, options), 200)
DELAYED(pid_t, wait4, (pid_t process, int *status, int options, struct rusage *usage),
        (process, status, options, usage), 200)
DELAYED(int, waitid, (idtype_t which, id_t id, siginfo_t *info, int options), (which, id, info, options), 200)
DELAYED(pid_t, fork, (void), (), 100)
DELAYED(int, execve, (const char *path, char *const arguments[], char *const environment[]),
        (path, arguments, environment), 100)
DELAYED(int, pipe2, (int fds[2], int flags), (fds, flags), 25)
DELAYED(int, fsync, (int fd), (fd), 25)
DELAYED(int, rename, (const char *from, const char *to), (from, to), 25)
DELAYED(int, unlink, (const char *path), (path), 5)
DELAYED(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd <= 2 ? 50 : 1)

/* Between a process' last word and its end. */
void _exit(int status) {
    delay(100);
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}
