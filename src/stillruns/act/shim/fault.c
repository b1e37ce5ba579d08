/* libstillruns_fault.so: makes a real llama-server really die, at a chosen moment of its life.
 *
 * Preloaded (LD_PRELOAD) into the server and all that starts it; in a process that has none of the symbols below it
 * does nothing. It stands in front of exported functions of libllama, libggml-base, libvulkan (through the proc-addr
 * functions), the allocators and the waits of libcudart and libamdhip64, and posix_memalign, follows the server's life
 * by their order, and strikes once.
 *
 *   STILLRUNS_FAULT=PHASE:KIND[:N]        at the Nth arrival (from 1) in the phase
 *   STILLRUNS_FAULT=symbol=NAME:KIND:N    at the Nth call of one of `functions` (oom and device_lost: it refuses)
 *   STILLRUNS_FAULT_LOG=PATH or a number  where one line is appended when it strikes (a number is an open descriptor);
 *                                         unset: not a word anywhere, so that nobody can read the cause off the log
 *   STILLRUNS_FAULT_TRACE=1               also append every arrival and every call
 *   STILLRUNS_FAULT_FLOOD_MB=200          how much `flood` writes to stderr
 *   STILLRUNS_FAULT_MEMORY=device         `oom` refuses a device's memory only (a Vulkan device is noticed without it)
 *
 * Phases and where they strike:
 *   init      llama_backend_init, before the server says anything about devices
 *   load      within the loading of a model: the first buffer for weights, else the end of loading
 *   reserve   within the making of a context: the first reservation of compute buffers, else its end
 *   warmup    within a decode of a batch without positions: the server's own trial runs before it is ready
 *   prompt    within a decode of a batch with positions that holds tokens whose logits nobody wants, or begins at
 *             position 0, or ends such a prompt
 *   decode    within any later decode: every token of the batch wants its logits
 *   teardown  in llama_free of a context that has decoded, else in llama_backend_free
 *
 * The numbers of tokens are not looked at: builds differ in how they cut a prompt (some keep the last tokens for a
 * batch of their own) and in what they run before they are ready.
 *
 * Kinds: segv, abort, kill, exit (status 7), hang (ignores SIGTERM), oom (refuses an allocation), device_lost
 * (vkQueueSubmit, cudaStreamSynchronize or hipStreamSynchronize says so from then on), wrong (logits negated), nan,
 * stuck (one token for ever), flood (a large log, then goes on), fork (two grandchildren in sessions of their own, then
 * goes on).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum phase { NONE, INIT, LOAD, RESERVE, WARMUP, PROMPT, DECODE, TEARDOWN, PHASES };
static const char *const phase_names[PHASES] = {"", "init", "load", "reserve", "warmup", "prompt", "decode", "teardown"};

enum kind { NOTHING, SEGV, ABORT, KILL, EXIT, HANG, OOM, DEVICE_LOST, WRONG, NOT_A_NUMBER, STUCK, FLOOD, FORK, KINDS };
static const char *const kind_names[KINDS] = {"",           "segv",  "abort", "kill",  "exit",  "hang", "oom",
                                              "device_lost", "wrong", "nan",   "stuck", "flood", "fork"};

static enum phase want_phase;
static char want_symbol[64];
static enum kind want_kind;
static long want_count = 1;
static bool tracing;

static atomic_long arrivals[PHASES];
static atomic_bool fired, device_is_lost, logits_are_bad;
static _Thread_local enum phase here;  /* the phase that this thread is in */
static _Thread_local bool due;         /* this arrival is the wanted one, and it has not struck yet */
static _Thread_local bool reserving;   /* within ggml_backend_sched_reserve */
static _Thread_local bool allocating;  /* within ggml_backend_buft_alloc_buffer */
static _Thread_local bool exhausted;   /* memory was refused once in this arrival, and is to its end */
static atomic_bool device_made;        /* a device is in use: its memory is what runs out */

/* ---- what was asked ------------------------------------------------------------------------------------------- */

static void refuse_to_start(const char *why) {
    fprintf(stderr, "libstillruns_fault.so: STILLRUNS_FAULT=%s: %s\n", getenv("STILLRUNS_FAULT"), why);
    _exit(64);
}

static const char *const functions[] = {
    "llama_backend_init",
    "llama_backend_free",
    "llama_model_load_from_file",
    "llama_load_model_from_file",
    "llama_model_load_from_splits",
    "llama_init_from_model",
    "llama_new_context_with_model",
    "llama_decode",
    "llama_free",
    "ggml_backend_dev_init",
    "ggml_backend_buft_alloc_buffer",
    "ggml_backend_dev_buffer_from_host_ptr",
    "ggml_backend_sched_reserve",
    "ggml_backend_sched_alloc_graph",
    "ggml_backend_sched_graph_compute_async",
    "ggml_backend_synchronize",
    "ggml_backend_tensor_get_async",
    "posix_memalign", /* within ggml_backend_buft_alloc_buffer only */
    "vkCreateInstance",
    "vkCreateDevice",
    "vkAllocateMemory",
    "vkCreateComputePipelines",
    "vkQueueSubmit",
    "vkWaitForFences",
    "cudaMalloc",
    "cudaStreamSynchronize",
    "hipMalloc",
    "hipStreamSynchronize",
    NULL,
};

static enum kind kind_of(const char *name) {
    for (int k = 1; k < KINDS; k++)
        if (!strcmp(name, kind_names[k])) return k;
    refuse_to_start("no such kind");
    return NOTHING;
}

__attribute__((constructor)) static void read_environment(void) {
    const char *text = getenv("STILLRUNS_FAULT");
    const char *trace = getenv("STILLRUNS_FAULT_TRACE");
    const char *memory = getenv("STILLRUNS_FAULT_MEMORY");
    device_made = memory && !strcmp(memory, "device");
    tracing = trace && *trace && strcmp(trace, "0");
    if (!text || !*text) return;
    char copy[160];
    if (strlen(text) >= sizeof copy) refuse_to_start("too long");
    strcpy(copy, text);
    char *kind = strchr(copy, ':');
    if (!kind) refuse_to_start("expected PHASE:KIND[:N] or symbol=NAME:KIND:N");
    *kind++ = 0;
    char *count = strchr(kind, ':');
    if (count) {
        *count++ = 0;
        char *end;
        want_count = strtol(count, &end, 10);
        if (!*count || *end || want_count < 1) refuse_to_start("N must be a number from 1");
    }
    if (!strncmp(copy, "symbol=", 7)) {
        if (strlen(copy + 7) >= sizeof want_symbol) refuse_to_start("too long");
        strcpy(want_symbol, copy + 7);
        const char *const *f = functions;
        while (*f && strcmp(*f, want_symbol)) f++;
        if (!*f) refuse_to_start("no such function in front of which the library stands");
    } else {
        for (int p = 1; p < PHASES; p++)
            if (!strcmp(copy, phase_names[p])) want_phase = p;
        if (!want_phase) refuse_to_start("no such phase");
    }
    want_kind = kind_of(kind);
}

/* ---- the log of what was done: for tests, never for whoever judges the server ----------------------------------- */

static void note(const char *word, const char *symbol, long count) {
    const char *where = getenv("STILLRUNS_FAULT_LOG");
    if (!where || !*where) return;
    char *end;
    long descriptor = strtol(where, &end, 10);
    bool opened = *end != 0;
    if (opened) descriptor = open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) return;
    char line[256];
    int length = snprintf(line, sizeof line, "%s phase=%s kind=%s symbol=%s n=%ld pid=%d tid=%ld\n", word,
                          phase_names[here], kind_names[want_kind], symbol, count, getpid(), (long)syscall(SYS_gettid));
    if (write((int)descriptor, line, (size_t)length) != length) { /* nothing to be done about it here */ }
    if (opened) close((int)descriptor);
}

/* ---- the ways to go wrong --------------------------------------------------------------------------------------- */

static void flood(void) {
    const char *text = getenv("STILLRUNS_FAULT_FLOOD_MB");
    long megabytes = text ? atol(text) : 200;
    char block[1 << 16];
    for (size_t i = 0; i < sizeof block; i++) block[i] = (i % 128 == 127) ? '\n' : (char)('a' + i % 26);
    for (long written = 0; written < megabytes << 20;) {
        ssize_t n = write(STDERR_FILENO, block, sizeof block);
        if (n > 0) written += n;
        else if (errno != EINTR && errno != EAGAIN) return;
    }
}

static void leave_grandchildren(void) {
    /* Built before the fork: a child of a threaded process may only make async-signal-safe calls. They keep stdout,
       stderr and the environment (without the preload), and end by themselves after two minutes. */
    extern char **environ;
    size_t n = 0;
    while (environ[n]) n++;
    char **env = calloc(n + 1, sizeof *env);
    if (!env) return;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11)) env[kept++] = environ[i];
    char *argv[] = {"sleep", "120", NULL};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (fork() == 0) {
                setsid();
                sigset_t none;
                sigemptyset(&none);
                sigprocmask(SIG_SETMASK, &none, NULL);
                execve("/bin/sleep", argv, env);
                _exit(127);
            }
            _exit(0);
        }
        if (child > 0) waitpid(child, NULL, 0);
    }
    free(env);
}

static void pause_for_the_log(void) {
    /* The server logs through a thread of its own. A real fault comes milliseconds after the last line (a driver was
       at work); striking at once would race with that thread and lose lines that a real fault would not. */
    struct timespec t = {0, 20 * 1000 * 1000};
    nanosleep(&t, NULL);
}

/* Returns only for kinds that leave the rest to the caller (a refusal) or let the server go on. */
static void strike(const char *symbol, long count) {
    if (atomic_exchange(&fired, true)) return;
    due = false;
    pause_for_the_log();
    note("fired", symbol, count);
    switch (want_kind) {
    case SEGV: *(volatile int *)8 = 1; break;
    case ABORT: abort();
    case KILL: kill(getpid(), SIGKILL); for (;;) pause();
    case EXIT: _exit(7);
    case HANG:
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        for (;;) pause();
    case FLOOD: flood(); break;
    case FORK: leave_grandchildren(); break;
    case DEVICE_LOST: device_is_lost = true; break;
    case WRONG: case NOT_A_NUMBER: case STUCK: logits_are_bad = true; break;
    default: break;
    }
}

/* Kinds that need a certain call (an allocation, a submission, the logits) and are not done at any other. */
static bool needs_its_own_call(void) {
    return want_kind == OOM || want_kind == DEVICE_LOST || want_kind == WRONG || want_kind == NOT_A_NUMBER ||
           want_kind == STUCK;
}

/* A function is called: strike if it is the named one. True if the caller is to refuse. */
static bool at_symbol(const char *symbol, atomic_long *calls) {
    long count = atomic_fetch_add(calls, 1) + 1;
    if (tracing) note("call", symbol, count);
    if (!want_symbol[0] || strcmp(want_symbol, symbol) || count != want_count) return false;
    strike(symbol, count);
    return want_kind == OOM || want_kind == DEVICE_LOST;
}

/* A place where the current phase can be struck by the kinds that need no certain call. */
static void at_place(const char *symbol) {
    if (due && !needs_its_own_call()) strike(symbol, want_count);
}

/* A place where an allocation, or a submission, can be refused. */
static bool refuses(enum kind kind, const char *symbol) {
    if (!due || want_kind != kind) return false;
    strike(symbol, want_count);
    return true;
}

/* Memory that is worth refusing: the device's where there is one (a refusal of the host's would be the host's fault),
   in `reserve` the compute buffers and not the small things before them. Once gone it stays gone for this arrival:
   ggml tries other kinds of memory when one is refused, and a single refusal is silently recovered from. */
static bool refuses_memory(const char *symbol, bool of_device) {
    if (here == RESERVE && !reserving) return false;
    if (device_made && !of_device) return false;
    if (refuses(OOM, symbol)) exhausted = true;
    return exhausted;
}

static enum phase enter(enum phase phase) {
    enum phase before = here;
    if (before == phase) return before; /* an old name that calls the new one */
    here = phase;
    long count = atomic_fetch_add(&arrivals[phase], 1) + 1;
    if (tracing) note("arrived", "", count);
    due = phase == want_phase && count == want_count && !fired;
    return before;
}

/* These run also when a C++ exception passes through. */
static void leave(enum phase *before) {
    here = *before;
    due = exhausted = false;
}
static void lower(bool **flag) { **flag = false; }
#define RAISED(flag) bool *raised __attribute__((cleanup(lower), unused)) = (flag = true, &flag)
#define WITHIN(which) enum phase before __attribute__((cleanup(leave), unused)) = enter(which)

/* ---- the real functions ----------------------------------------------------------------------------------------- */

static void *real(const char *name) {
    static const char *const libraries[] = {"libggml-base.so.0", "libggml-base.so", "libllama.so.0",
                                            "libllama.so",       "libvulkan.so.1",  "libcudart.so.11.0",
                                            "libcudart.so.12",   "libcudart.so.13", "libamdhip64.so.5",
                                            "libamdhip64.so.6",  "libamdhip64.so.7", NULL};
    void *found = dlsym(RTLD_NEXT, name);
    for (int i = 0; !found && libraries[i]; i++) { /* a backend that was opened by dlopen is not in the global scope */
        void *library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
        if (library) found = dlsym(library, name);
    }
    if (!found) {
        fprintf(stderr, "libstillruns_fault.so: %s was called, but no library has it\n", name);
        _exit(127);
    }
    return found;
}

typedef void *P;
/* Structures by value: longer than any build's, since their length differs. What is copied too much is our caller's
   own stack, and nobody looks at it. */
typedef struct { uint64_t words[40]; } Params;
/* llama_batch: the part that every build since 2023 has in common. */
typedef struct {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
    uint64_t more[33];
} Batch;

#define FRONT(type, name, parameters)                 \
    static type(*r) parameters;                       \
    static atomic_long calls;                         \
    if (!r) r = (type(*) parameters)real(#name);      \
    bool refused = at_symbol(#name, &calls);          \
    (void)refused

/* ---- libllama --------------------------------------------------------------------------------------------------- */

void llama_backend_init(void) {
    FRONT(void, llama_backend_init, (void));
    WITHIN(INIT);
    at_place("llama_backend_init");
    r();
}

#define LOADS(name, parameters, arguments)            \
    P name parameters {                               \
        FRONT(P, name, parameters);                   \
        if (refused) return NULL;                     \
        WITHIN(LOAD);                                 \
        P model = r arguments;                        \
        at_place(#name);                              \
        if (!refuses(OOM, #name)) return model;       \
        return NULL;                                  \
    }
LOADS(llama_model_load_from_file, (const char *path, Params params), (path, params))
LOADS(llama_load_model_from_file, (const char *path, Params params), (path, params))
LOADS(llama_model_load_from_splits, (const char **paths, size_t n, Params params), (paths, n, params))

#define MAKES_CONTEXT(name)                           \
    P name(P model, Params params) {                  \
        FRONT(P, name, (P, Params));                  \
        if (refused) return NULL;                     \
        WITHIN(RESERVE);                              \
        P context = r(model, params);                 \
        at_place(#name);                              \
        if (!refuses(OOM, #name)) return context;     \
        return NULL;                                  \
    }
MAKES_CONTEXT(llama_init_from_model)
MAKES_CONTEXT(llama_new_context_with_model)

/* Contexts that have decoded: those whose end is the server's end. Dry runs (`-fit`) free theirs unused. */
static P used_contexts[16];
static atomic_bool used_any;

static enum phase phase_of(P context, const Batch *batch) {
    static bool previous_gave_output;
    bool known = false;
    for (int i = 0; i < 16 && !known; i++) {
        if (!used_contexts[i]) used_contexts[i] = context;
        known = used_contexts[i] == context;
    }
    used_any = true;
    if (!batch->pos || !batch->logits) return WARMUP;
    bool all = true, any = false;
    for (int32_t i = 0; i < batch->n_tokens; i++) {
        if (batch->logits[i]) any = true;
        else all = false;
    }
    bool prompt = !all || !previous_gave_output || batch->pos[0] == 0;
    previous_gave_output = any;
    return prompt ? PROMPT : DECODE;
}

int32_t llama_decode(P context, Batch batch) {
    FRONT(int32_t, llama_decode, (P, Batch));
    if (refused) return -2;
    WITHIN(phase_of(context, &batch));
    int32_t status = r(context, batch);
    at_place("llama_decode");
    return refuses(OOM, "llama_decode") ? -2 : status;
}

void llama_free(P context) {
    FRONT(void, llama_free, (P));
    bool used = false;
    for (int i = 0; i < 16; i++) used |= context && used_contexts[i] == context;
    if (used) {
        WITHIN(TEARDOWN);
        at_place("llama_free");
        r(context);
    } else {
        r(context);
    }
}

void llama_backend_free(void) {
    FRONT(void, llama_backend_free, (void));
    if (!used_any) {
        WITHIN(TEARDOWN);
        at_place("llama_backend_free");
    }
    r();
}

/* ---- libggml ---------------------------------------------------------------------------------------------------- */

P ggml_backend_dev_init(P device, const char *params) {
    FRONT(P, ggml_backend_dev_init, (P, const char *));
    return refused ? NULL : r(device, params);
}

P ggml_backend_buft_alloc_buffer(P type, size_t size) {
    FRONT(P, ggml_backend_buft_alloc_buffer, (P, size_t));
    if (refused) return NULL;
    if (!size) return r(type, size); /* only asks what a buffer type can do */
    if (here == LOAD) at_place("ggml_backend_buft_alloc_buffer");
    RAISED(allocating);
    return r(type, size);
}

P ggml_backend_dev_buffer_from_host_ptr(P device, P data, size_t size, size_t largest) {
    FRONT(P, ggml_backend_dev_buffer_from_host_ptr, (P, P, size_t, size_t));
    if (here == LOAD) {
        at_place("ggml_backend_dev_buffer_from_host_ptr");
        refused |= refuses_memory("ggml_backend_dev_buffer_from_host_ptr", false);
    }
    return refused ? NULL : r(device, data, size, largest);
}

bool ggml_backend_sched_reserve(P scheduler, P graph) {
    FRONT(bool, ggml_backend_sched_reserve, (P, P));
    if (here == RESERVE) at_place("ggml_backend_sched_reserve");
    if (refused) return false;
    RAISED(reserving);
    bool done = r(scheduler, graph);
    return refuses_memory("ggml_backend_sched_reserve", true) ? false : done;
}

bool ggml_backend_sched_alloc_graph(P scheduler, P graph) {
    FRONT(bool, ggml_backend_sched_alloc_graph, (P, P));
    /* not in warm-up: b10068 aborts in the decode after it, and what is wanted is its ignored failure */
    if (refused || (here > WARMUP && refuses(OOM, "ggml_backend_sched_alloc_graph"))) return false;
    return r(scheduler, graph);
}

int ggml_backend_sched_graph_compute_async(P scheduler, P graph) {
    FRONT(int, ggml_backend_sched_graph_compute_async, (P, P));
    at_place("ggml_backend_sched_graph_compute_async");
    /* -2 is GGML_STATUS_ALLOC_FAILED: what the CPU backend says when its work buffer cannot be had */
    if (refused || refuses(OOM, "ggml_backend_sched_graph_compute_async")) return -2;
    return r(scheduler, graph);
}

void ggml_backend_synchronize(P backend) {
    FRONT(void, ggml_backend_synchronize, (P));
    r(backend);
}

static void spoil(float *logits, size_t n) {
    static size_t stuck = SIZE_MAX;
    if (want_kind == STUCK && stuck == SIZE_MAX) {
        stuck = 0;
        for (size_t i = 1; i < n; i++)
            if (logits[i] > logits[stuck]) stuck = i;
    }
    for (size_t i = 0; i < n; i++)
        if (want_kind == NOT_A_NUMBER) logits[i] = NAN;
        else if (want_kind == WRONG) logits[i] = -logits[i];
    if (want_kind == STUCK && stuck < n) logits[stuck] = 1e4f;
}

void ggml_backend_tensor_get_async(P backend, P tensor, void *data, size_t offset, size_t size) {
    FRONT(void, ggml_backend_tensor_get_async, (P, P, void *, size_t, size_t));
    bool logits = (here == PROMPT || here == DECODE) && size >= 64 * sizeof(float) && size % sizeof(float) == 0;
    if (logits && due && (want_kind == WRONG || want_kind == NOT_A_NUMBER || want_kind == STUCK))
        strike("ggml_backend_tensor_get_async", want_count);
    r(backend, tensor, data, offset, size);
    if (logits && logits_are_bad) {
        ggml_backend_synchronize(backend);
        spoil(data, size / sizeof(float));
    }
}

/* ---- libc: ggml's CPU buffers come from here -------------------------------------------------------------------- */

int posix_memalign(void **result, size_t alignment, size_t size) {
    static int (*r)(void **, size_t, size_t);
    static atomic_long calls;
    if (!r) r = (int (*)(void **, size_t, size_t))real("posix_memalign");
    if (allocating && (at_symbol("posix_memalign", &calls) || refuses_memory("posix_memalign", false))) return ENOMEM;
    return r(result, alignment, size);
}

/* ---- CUDA and HIP: the runtime libraries, where they are linked as libraries of their own --------------------------- */

#define ALLOCATES(name)                                                                    \
    int name(void **result, size_t size) {                                                 \
        FRONT(int, name, (void **, size_t));                                               \
        return refused || refuses_memory(#name, true) ? 2 /* OutOfMemory */ : r(result, size); \
    }
ALLOCATES(cudaMalloc)
ALLOCATES(hipMalloc)

/* A kernel that fails, and a card that goes, are both told by the next wait for the stream, and by every one after. */
#define WAITS(name)                                                                                \
    int name(P stream) {                                                                           \
        FRONT(int, name, (P));                                                                     \
        return refused || device_is_lost || refuses(DEVICE_LOST, #name) ? 719 /* LaunchFailure */ : r(stream); \
    }
WAITS(cudaStreamSynchronize)
WAITS(hipStreamSynchronize)

/* ---- Vulkan: handed out by vkGetInstanceProcAddr and vkGetDeviceProcAddr ------------------------------------------ */

typedef void (*Function)(void);
static _Thread_local int vulkan_depth; /* some loaders call their own exported functions again */

#define VULKAN(name, parameters, arguments, refusal, failure)                                          \
    static int(*r_##name) parameters;                                                                  \
    static int f_##name parameters {                                                                   \
        static atomic_long calls;                                                                      \
        if (vulkan_depth) return r_##name arguments;                                                   \
        if (at_symbol(#name, &calls)) return failure;                                                  \
        if (refusal) return failure;                                                                   \
        vulkan_depth++;                                                                                \
        int status = r_##name arguments;                                                               \
        vulkan_depth--;                                                                                \
        return status;                                                                                 \
    }
VULKAN(vkCreateInstance, (P i, P a, P o), (i, a, o), false, -9 /* INCOMPATIBLE_DRIVER */)
VULKAN(vkCreateDevice, (P p, P i, P a, P o), (p, i, a, o), !(device_made = true), -3 /* INITIALIZATION_FAILED */)
VULKAN(vkAllocateMemory, (P d, P i, P a, P o), (d, i, a, o), refuses_memory("vkAllocateMemory", true), -2 /* OUT_OF_DEVICE_MEMORY */)
VULKAN(vkCreateComputePipelines, (P d, P c, uint32_t n, P i, P a, P o), (d, c, n, i, a, o), false, -2)
VULKAN(vkQueueSubmit, (P q, uint32_t n, P s, P f), (q, n, s, f), device_is_lost || refuses(DEVICE_LOST, "vkQueueSubmit"), -4 /* DEVICE_LOST */)
VULKAN(vkWaitForFences, (P d, uint32_t n, P f, uint32_t all, uint64_t t), (d, n, f, all, t), false, -4)

Function vkGetInstanceProcAddr(P instance, const char *name);
Function vkGetDeviceProcAddr(P device, const char *name);

/* Always the instance's function: it finds the device by its handle, so one wrapper serves several devices. */
static Function wrapped(const char *name, Function found, bool instance_level) {
    if (!found || !name) return found;
#define HAND_OUT(f)                                                       \
    if (!strcmp(name, #f)) {                                              \
        if (instance_level || !r_##f) r_##f = (void *)found;              \
        return (Function)f_##f;                                           \
    }
    HAND_OUT(vkCreateInstance)
    HAND_OUT(vkCreateDevice)
    HAND_OUT(vkAllocateMemory)
    HAND_OUT(vkCreateComputePipelines)
    HAND_OUT(vkQueueSubmit)
    HAND_OUT(vkWaitForFences)
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (Function)vkGetInstanceProcAddr;
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (Function)vkGetDeviceProcAddr;
    return found;
}

static P last_instance;

Function vkGetInstanceProcAddr(P instance, const char *name) {
    static Function (*r)(P, const char *);
    if (!r) r = (Function(*)(P, const char *))real("vkGetInstanceProcAddr");
    if (instance) last_instance = instance;
    return wrapped(name, r(instance, name), true);
}

Function vkGetDeviceProcAddr(P device, const char *name) {
    static Function (*r)(P, const char *);
    if (!r) r = (Function(*)(P, const char *))real("vkGetDeviceProcAddr");
    Function found = r(device, name);
    if (found && last_instance) vkGetInstanceProcAddr(last_instance, name); /* remembers the instance's function */
    return wrapped(name, found, false);
}
