/* Servers that ask for every address of the machine get its loopback address: others than this machine's own
 * processes cannot reach them. Loaded by LD_PRELOAD into what labkit.launch starts on one machine (see
 * labs/labkit/launch/loopback.py): MPI's launchers and PyTorch's store offer no setting for where they listen.
 *
 * Only TCP, and only where no address is named: a server that names one has been told which.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static int option(int socket, int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(socket, level, name, &value, &size) == 0 ? value : 0;
}

static void to_loopback(int socket, union address *address) {
    static const unsigned char no_v4[16] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char loopback_v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    if (address->any.sa_family == AF_INET && address->v4.sin_addr.s_addr == htonl(INADDR_ANY)) {
        address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else if (address->any.sa_family == AF_INET6) {
        struct in6_addr *wanted = &address->v6.sin6_addr;
        if (memcmp(wanted, &in6addr_any, sizeof *wanted) == 0 && option(socket, IPPROTO_IPV6, IPV6_V6ONLY))
            *wanted = in6addr_loopback;
        else if (memcmp(wanted, &in6addr_any, sizeof *wanted) == 0 || memcmp(wanted, no_v4, 16) == 0)
            memcpy(wanted, loopback_v4, 16); /* it would have taken IPv4 as well, and that is what is used */
    }
}

/* The system call itself, not the next library's `bind`: nothing here depends on a version of the C library. */
int bind(int socket, const struct sockaddr *wanted, socklen_t length) {
    union address address;
    if (wanted != NULL && length >= sizeof address.v4 && length <= sizeof address &&
        option(socket, SOL_SOCKET, SO_TYPE) == SOCK_STREAM) {
        memcpy(&address, wanted, length);
        if (address.any.sa_family == AF_INET || (address.any.sa_family == AF_INET6 && length == sizeof address.v6)) {
            to_loopback(socket, &address);
            wanted = &address.any;
        }
    }
    return (int)syscall(SYS_bind, socket, wanted, length);
}
