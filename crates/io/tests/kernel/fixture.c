// What the emitter writes for a small program, by hand: one table of each structure, ports, drops, a counter.
// (aya knows tc programs by the section name "classifier".)
// TC_ACT_REDIRECT to port 1 on a hit of the exact table; else a drop for reason 0, or 1 if the ternary table says so.
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
struct __sk_buff { u32 len, pkt_type, mark, queue_mapping, protocol, vp, vt, vpr, priority, ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end; };
#define SEC(n) __attribute__((section(n), used))
#define U(n, v) int (*n)[v]
#define T(n, t) t *n
static void *(*lookup)(void *, const void *) = (void *)1;
static long (*redirect)(u32, u64) = (void *)23;
struct count { u64 packets, bytes; };
struct exact_key { u8 mac[6]; };
struct data { u32 action; u32 port; };
struct exact_value { struct count count; struct data data; };
struct lpm_key { u32 len; u8 addr[4]; };
struct tern_key { u32 tuple; u8 type[2], pad[2]; };
struct tern_value { int priority; u32 pad; struct data data; };
struct tuple { int best; u32 number; u8 mask[2]; u8 pad[6]; };
struct egress { u32 ifindex, flags; };
struct { U(type, 1); U(max_entries, 64); T(key, struct exact_key); T(value, struct exact_value); } t_exact SEC(".maps");
struct { U(type, 11); U(max_entries, 64); U(map_flags, 1); T(key, struct lpm_key); T(value, struct data); } t_lpm SEC(".maps");
struct { U(type, 1); U(max_entries, 64); T(key, struct tern_key); T(value, struct tern_value); } t_tern SEC(".maps");
struct { U(type, 2); U(max_entries, 160); T(key, u32); T(value, struct tuple); } t_tern_tuples SEC(".maps");
struct { U(type, 2); U(max_entries, 32); T(key, u32); T(value, struct data); } t_exact_default SEC(".maps");
struct version { u64 writes; u32 fallback, tuples; };
struct { U(type, 2); U(max_entries, 3); T(key, u32); T(value, struct version); } strait_versions SEC(".maps");
struct ingress { u32 port, lane, flags; };
struct { U(type, 1); U(max_entries, 64); T(key, u32); T(value, struct ingress); } strait_ports SEC(".maps");
struct { U(type, 2); U(max_entries, 64); T(key, u32); T(value, struct egress); } strait_egress SEC(".maps");
struct { U(type, 6); U(max_entries, 2); T(key, u32); T(value, struct count); } strait_drops SEC(".maps");

__attribute__((noinline)) int drop(struct __sk_buff *skb, u32 reason) {
  struct count *c = lookup(&strait_drops, &reason);
  if (c) { c->packets++; c->bytes += skb->len; }
  return 2;
}
__attribute__((noinline)) int send(struct __sk_buff *skb, u32 port) {
  struct egress *e = lookup(&strait_egress, &port);
  if (!e || !e->ifindex) return drop(skb, 0);
  return redirect(e->ifindex, e->flags);
}
SEC("classifier") int entry(struct __sk_buff *skb) {
  u8 *p = (u8 *)(long)skb->data, *end = (u8 *)(long)skb->data_end;
  struct exact_key k = {};
  if (p + 14 > end) return drop(skb, 0);
  for (int i = 0; i < 6; i++) k.mac[i] = p[i];
  u32 exact = 0, tern = 2;
  struct version *of_exact = lookup(&strait_versions, &exact), *of_tern = lookup(&strait_versions, &tern);
  if (!of_exact || !of_tern) return drop(skb, 0);
  int best = -1; u32 verdict = 0;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    u32 n = of_tern->tuples + i;
    struct tuple *t = lookup(&t_tern_tuples, &n);
    if (!t || !t->number || t->best <= best) break;
    struct tern_key tk = {t->number, {p[12] & t->mask[0], p[13] & t->mask[1]}};
    struct tern_value *tv = lookup(&t_tern, &tk);
    if (tv && tv->priority > best) { best = tv->priority; verdict = tv->data.port; }
  }
  if (verdict) return drop(skb, 1);
  struct exact_value *v = lookup(&t_exact, &k);
  if (v) { v->count.packets++; v->count.bytes += skb->len; return send(skb, v->data.port); }
  u32 fallback = of_exact->fallback;
  struct data *d = lookup(&t_exact_default, &fallback);
  if (d && d->action == 1) return send(skb, d->port);
  struct lpm_key lk = {32, {p[0], p[1], p[2], p[3]}};
  d = lookup(&t_lpm, &lk);
  if (d && d->action == 1) return send(skb, d->port);
  return drop(skb, 0);
}
char _license[] SEC("license") = "Dual MIT/GPL";
