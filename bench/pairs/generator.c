/* The load generator: a fixed number of requests in flight on each of many connections, one thread, one epoll.
 *
 * bench/pairs/generator.py builds and runs it. The connections are inherited, open; what each of them sends and
 * must be answered comes on standard input, the findings go to standard output. Every request has a correlation id
 * of its own, and numbers that count up where it was told to (committed offsets), as those of clients do. Every
 * answer is compared as a whole: its size, its correlation id, and all bytes behind it, error codes among them, with
 * those of the one that was decoded and found good before. What differs is a failure, and no operation. Connections
 * that are encrypted shake hands and log in before the clock starts, all at once.
 *
 * Input, in the byte order of the machine:  f64 seconds, f64 patience, u32 in flight, u32 lanes, u32 pid, u32 whether
 * there is a login; the login's six parts (secure.h), each behind a u32 of its bytes; then for each lane u32
 * descriptor, u32 bytes of its frame, u32 bytes of its answer, u32 numbers, u32 free; u32 where each of the numbers is
 * in the frame (eight bytes, big-endian) and where in the answer there is what may differ (as many); the frame; the
 * answer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "secure.h"

enum {
    CORRELATION_AT = 8, /* In a request: behind its size, its API key and its version. */
    ANSWER_HEAD = 8,    /* Size and correlation id. */
    FREE_BYTES = 8,     /* Of an answer that may differ: an offset that the server gives. */
    RECEIVE_BYTES = 1 << 18,
    EVENTS = 1024,
    WRONG_SHOWN = 1 << 16,
    FINE = 128, /* Buckets to each power of two: a latency is known to 1 %. */
    BUCKETS = 40 * FINE,
    ANSWER_MAX = 1 << 26,
};

struct lane {
    int fd;
    struct secure *secure; /* NULL: plaintext. */
    uint32_t frame_bytes, answer_bytes, numbers, free_count;
    uint32_t *number_at, *free_at;
    unsigned char *frame, *answer;
    unsigned char *out; /* The frames of one write: as many as may be in flight. */
    size_t out_at, out_end;
    uint32_t owed; /* Requests to send once what is in `out` has gone. */
    unsigned char *came; /* The beginning of an answer that has not come as a whole. */
    size_t came_bytes, came_room;
    uint32_t next_id, due_id;
    double *sent_at; /* A ring, by correlation id. */
    uint32_t in_flight;
    int is_open;
};

static double patience;
static uint32_t depth, lane_count, pid, open_lanes;
static struct login login; /* Without an authority: none. */
static struct lane *lanes;
static uint64_t operations, failures, closed, unanswered, histogram[BUCKETS];
static unsigned char wrong[WRONG_SHOWN];
static size_t wrong_bytes;
static uint32_t wrong_due;
static int is_over, epoll_fd; /* Over: what is still in flight is awaited and looked at, and counts no more. */

static void fail(const char *what) {
    fprintf(stderr, "generator: %s: %s\n", what, strerror(errno));
    exit(2);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *room(size_t bytes) {
    void *made = calloc(1, bytes ? bytes : 1);
    if (made == NULL) fail("memory");
    return made;
}

static void input(void *into, size_t bytes) {
    if (bytes && fread(into, 1, bytes, stdin) != bytes) {
        fprintf(stderr, "generator: the input ends early\n");
        exit(2);
    }
}

static uint32_t input_u32(void) {
    uint32_t number;
    input(&number, sizeof number);
    return number;
}

static uint32_t read_u32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_u32(unsigned char *at, uint32_t number) {
    at[0] = (unsigned char)(number >> 24), at[1] = (unsigned char)(number >> 16);
    at[2] = (unsigned char)(number >> 8), at[3] = (unsigned char)number;
}

/* CPU of all threads of the server, in ticks: utime and stime, the 14th and 15th field of its stat. */
static void server_ticks(unsigned long *user, unsigned long *system_) {
    char path[64], line[2048];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail(path);
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = 0;
    char *behind_name = strrchr(line, ')'); /* The name may hold anything. */
    if (behind_name == NULL ||
        sscanf(behind_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", user, system_) != 2)
        fail("the CPU of the server");
}

static uint64_t own_us(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Buckets are one microsecond wide up to FINE, and 1/FINE of their power of two above. */
static unsigned bucket_of(double seconds) {
    uint64_t us = seconds > 0 ? (uint64_t)(seconds * 1e6) : 0;
    if (us < FINE) return (unsigned)us;
    unsigned shift = 63 - (unsigned)__builtin_clzll(us) - 7;
    unsigned bucket = (shift + 1) * FINE + (unsigned)(us >> shift) - FINE;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static uint64_t us_of(unsigned bucket) {
    if (bucket < FINE) return bucket;
    return (uint64_t)(bucket % FINE + FINE) << (bucket / FINE - 1);
}

static void read_login(void) {
    struct blob *parts[] = {&login.authority, &login.handshake, &login.first, &login.final, &login.bare, &login.keys};
    for (size_t each = 0; each < sizeof parts / sizeof *parts; each++) {
        parts[each]->bytes = input_u32();
        input(parts[each]->at = room(parts[each]->bytes + 1), parts[each]->bytes); /* The path of a file ends with 0. */
    }
}

static void read_lanes(void) {
    lanes = room(lane_count * sizeof *lanes);
    for (struct lane *lane = lanes; lane < lanes + lane_count; lane++) {
        lane->fd = (int)input_u32();
        lane->frame_bytes = input_u32(), lane->answer_bytes = input_u32();
        lane->numbers = input_u32(), lane->free_count = input_u32();
        lane->number_at = room(lane->numbers * sizeof *lane->number_at);
        input(lane->number_at, lane->numbers * sizeof *lane->number_at);
        lane->free_at = room(lane->free_count * sizeof *lane->free_at);
        input(lane->free_at, lane->free_count * sizeof *lane->free_at);
        input(lane->frame = room(lane->frame_bytes), lane->frame_bytes);
        input(lane->answer = room(lane->answer_bytes), lane->answer_bytes);
        lane->out = room((size_t)lane->frame_bytes * depth);
        lane->sent_at = room(depth * sizeof *lane->sent_at);
        lane->next_id = lane->due_id = 1;
        lane->is_open = 1;
    }
    open_lanes = lane_count;
}

static void watch(struct lane *lane, int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = lane};
    if (epoll_ctl(epoll_fd, operation, lane->fd, &event)) fail("epoll");
}

static void give_up(struct lane *lane) {
    failures += lane->in_flight + lane->owed;
    closed++, open_lanes--;
    lane->in_flight = lane->owed = 0, lane->is_open = 0;
    watch(lane, EPOLL_CTL_DEL, 0);
}

/* The next request: another correlation id than any before it, and numbers that are one higher. */
static void next_frame(struct lane *lane, double now) {
    write_u32(lane->frame + CORRELATION_AT, lane->next_id);
    for (uint32_t each = 0; each < lane->numbers; each++) {
        unsigned char *at = lane->frame + lane->number_at[each];
        for (int byte = 7; byte >= 0 && ++at[byte] == 0; byte--) continue;
    }
    memcpy(lane->out + lane->out_end, lane->frame, lane->frame_bytes);
    lane->out_end += lane->frame_bytes;
    lane->sent_at[lane->next_id++ % depth] = now;
    lane->in_flight++;
}

/* As send and recv that do not wait. */
static ssize_t transmit(struct lane *lane, const void *data, size_t bytes) {
    if (lane->secure != NULL) return secure_send(lane->secure, data, bytes);
    return send(lane->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t receive(struct lane *lane, void *into, size_t bytes) {
    if (lane->secure != NULL) return secure_recv(lane->secure, into, bytes);
    return recv(lane->fd, into, bytes, MSG_DONTWAIT);
}

static void send_owed(struct lane *lane, double now) {
    while (lane->is_open) {
        if (lane->out_at == lane->out_end) {
            if (!lane->owed) return;
            lane->out_at = lane->out_end = 0;
            for (; lane->owed; lane->owed--) next_frame(lane, now);
        }
        ssize_t sent = transmit(lane, lane->out + lane->out_at, lane->out_end - lane->out_at);
        if (sent <= 0) {
            if (sent < 0 && errno == EAGAIN)
                watch(lane, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            else
                give_up(lane);
            return;
        }
        lane->out_at += (size_t)sent;
    }
}

static int is_right(const struct lane *lane, const unsigned char *answer, size_t bytes) {
    if (bytes != lane->answer_bytes || read_u32(answer + 4) != lane->due_id) return 0;
    for (uint32_t each = 0; each < lane->free_count; each++)
        memcpy(lane->answer + lane->free_at[each], answer + lane->free_at[each], FREE_BYTES);
    return memcmp(answer + ANSWER_HEAD, lane->answer + ANSWER_HEAD, bytes - ANSWER_HEAD) == 0;
}

static void on_answer(struct lane *lane, const unsigned char *answer, size_t bytes, double now) {
    if (!lane->in_flight) { /* Nothing was asked. */
        failures++;
        return;
    }
    if (!is_right(lane, answer, bytes)) {
        if (!failures++) {
            wrong_bytes = bytes < WRONG_SHOWN ? bytes : WRONG_SHOWN;
            memcpy(wrong, answer, wrong_bytes);
            wrong_due = lane->due_id;
        }
    } else if (!is_over) {
        operations++;
        histogram[bucket_of(now - lane->sent_at[lane->due_id % depth])]++;
    }
    lane->due_id++, lane->in_flight--;
    if (!is_over) lane->owed++;
}

static void keep(struct lane *lane, const unsigned char *data, size_t bytes) {
    if (bytes > lane->came_room) {
        lane->came_room = bytes * 2;
        unsigned char *larger = room(lane->came_room);
        memcpy(larger, data, bytes);
        free(lane->came);
        lane->came = larger;
    } else if (bytes)
        memmove(lane->came, data, bytes);
    lane->came_bytes = bytes;
}

static void on_data(struct lane *lane, const unsigned char *data, size_t bytes, double now) {
    if (lane->came_bytes) {
        if (lane->came_bytes + bytes > lane->came_room) {
            lane->came_room = (lane->came_bytes + bytes) * 2;
            lane->came = realloc(lane->came, lane->came_room);
            if (lane->came == NULL) fail("memory");
        }
        memcpy(lane->came + lane->came_bytes, data, bytes);
        data = lane->came, bytes += lane->came_bytes;
    }
    while (bytes >= ANSWER_HEAD) {
        size_t whole = 4 + (size_t)read_u32(data);
        if (whole < ANSWER_HEAD || whole > ANSWER_MAX) { /* No frame of Kafka's protocol. */
            give_up(lane);
            return;
        }
        if (bytes < whole) break;
        on_answer(lane, data, whole, now);
        data += whole, bytes -= whole;
    }
    keep(lane, data, bytes);
}

static void on_event(struct lane *lane, uint32_t events) {
    static unsigned char buffer[RECEIVE_BYTES];
    if (!lane->is_open) return;
    if (events & EPOLLOUT) watch(lane, EPOLL_CTL_MOD, EPOLLIN);
    double now = 0;
    int has_more = (events & ~(uint32_t)EPOLLOUT) != 0;
    while (has_more) {
        ssize_t got = receive(lane, buffer, sizeof buffer);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            give_up(lane);
            return;
        }
        now = now_s();
        if (got > 0) on_data(lane, buffer, (size_t)got, now);
        has_more = got > 0 && lane->secure != NULL && lane->is_open && secure_has_more(lane->secure);
    }
    send_owed(lane, now ? now : now_s());
}

/* Whether there is more to come. Without any answer for as long as its patience it gives the rest up. */
static int turn(double until) {
    static struct epoll_event events[EVENTS];
    static double heard_at;
    double now = now_s(), wait = until - now < patience ? until - now : patience;
    if (!heard_at) heard_at = now;
    int ready = epoll_wait(epoll_fd, events, EVENTS, wait > 0 ? (int)(wait * 1000) + 1 : 0);
    if (ready < 0 && errno != EINTR) fail("epoll");
    for (int each = 0; each < ready; each++) on_event(events[each].data.ptr, events[each].events);
    if (ready > 0) heard_at = now_s();
    return open_lanes && now_s() - heard_at < patience;
}

static uint64_t in_flight(void) {
    uint64_t sum = 0;
    for (uint32_t each = 0; each < lane_count; each++) sum += lanes[each].in_flight;
    return sum;
}

/* All shake hands and log in at once; how long it takes, in seconds. */
static double log_in(void) {
    struct epoll_event events[EVENTS];
    double start = now_s();
    secure_begin(&login);
    uint32_t left = 0;
    for (uint32_t each = 0; each < lane_count; each++) {
        lanes[each].secure = secure_new(lanes[each].fd);
        if (secure_log_in(lanes[each].secure) == IS_DONE) continue; /* The server was quicker than this loop. */
        watch(lanes + each, EPOLL_CTL_ADD, EPOLLIN);
        left++;
    }
    while (left) {
        int ready = epoll_wait(epoll_fd, events, EVENTS, (int)(patience * 1000) + 1);
        if (ready < 0 && errno != EINTR) fail("epoll");
        if (ready == 0) {
            fprintf(stderr, "generator: %u of %u logins are not done, and nothing comes\n", left, lane_count);
            exit(2);
        }
        for (int each = 0; each < ready; each++) {
            struct lane *lane = events[each].data.ptr;
            if (secure_log_in(lane->secure) == WAITS) continue;
            watch(lane, EPOLL_CTL_DEL, 0);
            left--;
        }
    }
    return now_s() - start;
}

static void begin(void) {
    for (uint32_t each = 0; each < lane_count; each++) watch(lanes + each, EPOLL_CTL_ADD, EPOLLIN);
    for (uint32_t each = 0; each < lane_count; each++) {
        lanes[each].owed = depth;
        send_owed(lanes + each, now_s());
    }
}

/* Nothing is left in flight for the next round. */
static void drain(void) {
    is_over = 1;
    for (uint32_t each = 0; each < lane_count; each++) lanes[each].owed = 0;
    while (in_flight() && turn(now_s() + patience)) continue;
    unanswered = in_flight();
    failures += unanswered;
}

int main(void) {
    double seconds;
    input(&seconds, sizeof seconds);
    input(&patience, sizeof patience);
    depth = input_u32(), lane_count = input_u32(), pid = input_u32();
    int has_login = (int)input_u32();
    if (has_login) read_login();
    read_lanes();
    if ((epoll_fd = epoll_create1(0)) < 0) fail("epoll");
    unsigned long user, system_, user_end, system_end;
    uint64_t own = own_us();
    server_ticks(&user, &system_);
    if (has_login) {
        double took = log_in();
        server_ticks(&user_end, &system_end);
        printf("login_seconds %.6f\nlogin_own_us %llu\n", took, (unsigned long long)(own_us() - own));
        printf("login_user_ticks %lu\nlogin_system_ticks %lu\n", user_end - user, system_end - system_);
        own = own_us(), user = user_end, system_ = system_end;
    }
    double start = now_s(), until = start + seconds;
    begin();
    while (now_s() < until && turn(until)) continue;
    double took = now_s() - start;
    server_ticks(&user_end, &system_end);
    own = own_us() - own;
    drain();
    printf("operations %llu\nseconds %.6f\n", (unsigned long long)operations, took);
    printf("user_ticks %lu\nsystem_ticks %lu\n", user_end - user, system_end - system_);
    printf("failures %llu\nclosed %llu\n", (unsigned long long)failures, (unsigned long long)closed);
    printf("unanswered %llu\nown_us %llu\n", (unsigned long long)unanswered, (unsigned long long)own);
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
        if (histogram[bucket])
            printf("latency %llu %llu\n", (unsigned long long)us_of(bucket), (unsigned long long)histogram[bucket]);
    if (wrong_bytes) {
        printf("wrong %u ", wrong_due);
        for (size_t byte = 0; byte < wrong_bytes; byte++) printf("%02x", wrong[byte]);
        printf("\n");
    }
    return fflush(stdout) ? 2 : 0;
}
