/* The side of `dpdk:` ports that DPDK's headers want in C: its fast path is inline functions. dpdk.rs is the other side. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

enum { RX = 1024, TX = 1024, CACHE = 256, BURST = 64 };

/* A packet that has come in. */
struct frame {
    struct rte_mbuf *mbuf;
    uint32_t length;
};

static struct rte_mempool *pools[RTE_MAX_ETHPORTS];

static int failed(char *why, size_t size, const char *what, int error)
{
    snprintf(why, size, "%s: %s", what, rte_strerror(error < 0 ? -error : error));
    return -1;
}

int strait_dpdk_start(int argc, char **argv, char *why, size_t size)
{
    /* DPDK keeps the thread that starts it on one processor; here it starts others, which are to have theirs. */
    cpu_set_t own;
    int known = !sched_getaffinity(0, sizeof own, &own);
    int code = rte_eal_init(argc, argv);
    if (known)
        sched_setaffinity(0, sizeof own, &own);
    if (code < 0)
        return failed(why, size, "DPDK does not start", rte_errno);
    /* A directory for other processes of this one's, of which there are none. */
    rmdir(rte_eal_get_runtime_dir());
    return 0;
}

/* The port of a device, which is attached if it was not there; -1 and why. */
static int port_of(const char *device, char *why, size_t size)
{
    struct rte_dev_iterator iterator;
    uint16_t port;
    int error = rte_dev_probe(device);
    if (error < 0 && error != -EEXIST)
        return failed(why, size, device, error);
    RTE_ETH_FOREACH_MATCHING_DEV(port, device, &iterator) {
        rte_eth_iterator_cleanup(&iterator);
        return port;
    }
    return failed(why, size, device, ENODEV);
}

static int set_up(uint16_t port, uint16_t queues, char *why, size_t size)
{
    struct rte_eth_dev_info info;
    struct rte_eth_conf conf = {0};
    uint16_t rx = RX, tx = TX;
    int error = rte_eth_dev_info_get(port, &info);
    if (error)
        return failed(why, size, "its description", error);
    if (queues > info.max_rx_queues || queues > info.max_tx_queues)
        return failed(why, size, "it has fewer queues than there are workers", EINVAL);
    if (queues > 1) {
        /* Packets of a flow stay with a worker. */
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) & info.flow_type_rss_offloads;
        if (!conf.rx_adv_conf.rss_conf.rss_hf)
            conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
    }
    if ((error = rte_eth_dev_configure(port, queues, queues, &conf)))
        return failed(why, size, "its configuration", error);
    rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "strait-%u", port);
    unsigned count = queues * (rx + tx + 2 * BURST) + 4 * CACHE;
    pools[port] = rte_pktmbuf_pool_create(name, count, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, rte_eth_dev_socket_id(port));
    if (!pools[port])
        return failed(why, size, "memory for packets", rte_errno);
    for (uint16_t queue = 0; queue < queues; queue++) {
        error = rte_eth_rx_queue_setup(port, queue, rx, rte_eth_dev_socket_id(port), 0, pools[port]);
        if (!error)
            error = rte_eth_tx_queue_setup(port, queue, tx, rte_eth_dev_socket_id(port), 0);
        if (error)
            return failed(why, size, "its queues", error);
    }
    if ((error = rte_eth_dev_start(port)))
        return failed(why, size, "starting it", error);
    /* Where a device cannot, its packets are addressed to it anyway, or it hears all. */
    rte_eth_promiscuous_enable(port);
    return 0;
}

static void forget(uint16_t port)
{
    rte_eth_dev_stop(port);
    struct rte_eth_dev_info info;
    struct rte_device *device = rte_eth_dev_info_get(port, &info) ? 0 : (struct rte_device *)info.device;
    rte_eth_dev_close(port);
    if (device)
        rte_dev_remove(device);
    rte_mempool_free(pools[port]);
    pools[port] = 0;
}

int strait_dpdk_open(const char *device, uint16_t queues, char *driver, size_t driver_size, char *why, size_t size)
{
    int port = port_of(device, why, size);
    if (port < 0)
        return -1;
    if (set_up(port, queues, why, size)) {
        forget(port);
        return -1;
    }
    struct rte_eth_dev_info info;
    snprintf(driver, driver_size, "%s", rte_eth_dev_info_get(port, &info) ? "" : info.driver_name);
    return port;
}

void strait_dpdk_close(uint16_t port)
{
    forget(port);
}

/* A thread that DPDK knows has caches of its own. */
int strait_dpdk_enter(void)
{
    return rte_lcore_id() == LCORE_ID_ANY ? rte_thread_register() : -1;
}

void strait_dpdk_leave(void)
{
    rte_thread_unregister();
}

uint16_t strait_dpdk_receive(uint16_t port, uint16_t queue, struct frame *frames, uint16_t most)
{
    struct rte_mbuf *all[BURST];
    uint16_t count = rte_eth_rx_burst(port, queue, all, most < BURST ? most : BURST);
    for (uint16_t i = 0; i < count; i++) {
        rte_prefetch0(rte_pktmbuf_mtod(all[i], void *));
        frames[i].mbuf = all[i];
        frames[i].length = rte_pktmbuf_pkt_len(all[i]);
    }
    return count;
}

/* Copies a packet out, all of its segments, and gives its memory back; nothing is copied where `to` is null. */
void strait_dpdk_take(struct rte_mbuf *mbuf, uint8_t *to)
{
    for (struct rte_mbuf *part = to ? mbuf : 0; part; part = part->next) {
        rte_memcpy(to, rte_pktmbuf_mtod(part, void *), rte_pktmbuf_data_len(part));
        to += rte_pktmbuf_data_len(part);
    }
    rte_pktmbuf_free(mbuf);
}

/* A copy of a packet to send; null where there is no memory. Too long ones are not for here. */
struct rte_mbuf *strait_dpdk_give(uint16_t port, const uint8_t *bytes, uint16_t length)
{
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pools[port]);
    char *room = mbuf ? rte_pktmbuf_append(mbuf, length) : 0;
    if (room)
        rte_memcpy(room, bytes, length);
    else
        rte_pktmbuf_free(mbuf);
    return room ? mbuf : 0;
}

/* Bytes of the longest packet that can be sent. */
uint32_t strait_dpdk_longest(uint16_t port)
{
    uint16_t mtu = 0;
    uint32_t room = RTE_MBUF_DEFAULT_DATAROOM;
    if (rte_eth_dev_get_mtu(port, &mtu))
        return room;
    /* With an Ethernet header and a tag. */
    return mtu + 18u < room ? mtu + 18u : room;
}

/* Sends; those that find no room are given back. */
uint16_t strait_dpdk_send(uint16_t port, uint16_t queue, struct rte_mbuf **all, uint16_t count)
{
    uint16_t sent = rte_eth_tx_burst(port, queue, all, count);
    rte_pktmbuf_free_bulk(all + sent, count - sent);
    return sent;
}

uint64_t strait_dpdk_missed(uint16_t port)
{
    struct rte_eth_stats stats;
    return rte_eth_stats_get(port, &stats) ? 0 : stats.imissed + stats.rx_nombuf;
}
