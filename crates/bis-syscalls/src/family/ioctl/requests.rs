//! The requests that ioctl knows. Sizes are those of the kernel's structures; `InOut` also where the kernel
//! writes fewer bytes than the structure has.

use super::Shape::{self, Fields, In, InOut, Judged, Out, Slow};
use super::{Request, dedupe, ethtool, fiemap, ifconf, iw_point, measure};

const fn r(nr: u32, name: &'static str, shape: Shape) -> Request {
    Request { nr, name, shape }
}

/// `struct ifreq`.
const IFREQ: Shape = InOut(40);
/// `struct iwreq`, without a pointer in it.
const IWREQ: Shape = InOut(32);

#[rustfmt::skip]
pub(crate) static REQUESTS: &[Request] = &[
    // Terminals.
    r(0x5401, "TCGETS", Out(36)), r(0x5402, "TCSETS", In), r(0x5403, "TCSETSW", In), r(0x5404, "TCSETSF", In),
    r(0x5405, "TCGETA", InOut(18)), r(0x5406, "TCSETA", In), r(0x5407, "TCSETAW", In), r(0x5408, "TCSETAF", In),
    r(0x5409, "TCSBRK", In), r(0x540a, "TCXONC", In), r(0x540b, "TCFLSH", In), r(0x540c, "TIOCEXCL", In),
    r(0x540d, "TIOCNXCL", In), r(0x540e, "TIOCSCTTY", In), r(0x540f, "TIOCGPGRP", Out(4)),
    r(0x5410, "TIOCSPGRP", In), r(0x5411, "TIOCOUTQ", Out(4)), r(0x5412, "TIOCSTI", In),
    r(0x5413, "TIOCGWINSZ", Out(8)), r(0x5414, "TIOCSWINSZ", In), r(0x5415, "TIOCMGET", Out(4)),
    r(0x5416, "TIOCMBIS", In), r(0x5417, "TIOCMBIC", In), r(0x5418, "TIOCMSET", In),
    r(0x5419, "TIOCGSOFTCAR", Out(4)), r(0x541a, "TIOCSSOFTCAR", In), r(0x541b, "FIONREAD", Out(4)),
    r(0x541c, "TIOCLINUX", Slow("TIOCLINUX has many shapes")), r(0x541d, "TIOCCONS", In),
    r(0x541e, "TIOCGSERIAL", InOut(72)), r(0x541f, "TIOCSSERIAL", In), r(0x5420, "TIOCPKT", In),
    r(0x5421, "FIONBIO", In), r(0x5422, "TIOCNOTTY", In), r(0x5423, "TIOCSETD", In), r(0x5424, "TIOCGETD", Out(4)),
    r(0x5425, "TCSBRKP", In), r(0x5427, "TIOCSBRK", In), r(0x5428, "TIOCCBRK", In), r(0x5429, "TIOCGSID", Out(4)),
    r(0x802c_542a, "TCGETS2", Out(44)), r(0x402c_542b, "TCSETS2", In), r(0x402c_542c, "TCSETSW2", In),
    r(0x402c_542d, "TCSETSF2", In), r(0x8004_5430, "TIOCGPTN", Out(4)), r(0x4004_5431, "TIOCSPTLCK", In),
    r(0x8004_5432, "TIOCGDEV", Out(4)), r(0x4004_5436, "TIOCSIG", In), r(0x5437, "TIOCVHANGUP", In),
    r(0x8004_5438, "TIOCGPKT", Out(4)), r(0x8004_5439, "TIOCGPTLCK", Out(4)), r(0x8004_5440, "TIOCGEXCL", Out(4)),
    r(0x5441, "TIOCGPTPEER", In), r(0x545c, "TIOCMIWAIT", In), r(0x545d, "TIOCGICOUNT", InOut(80)),
    // Virtual consoles and keyboards.
    r(0x4b31, "KDGETLED", Out(1)), r(0x4b32, "KDSETLED", In), r(0x4b33, "KDGKBTYPE", Out(1)),
    r(0x4b3a, "KDSETMODE", In), r(0x4b3b, "KDGETMODE", Out(4)), r(0x4b44, "KDGKBMODE", Out(4)),
    r(0x4b45, "KDSKBMODE", In), r(0x4b64, "KDGKBLED", Out(1)), r(0x4b65, "KDSKBLED", In),
    r(0x5600, "VT_OPENQRY", Out(4)), r(0x5601, "VT_GETMODE", Out(8)), r(0x5602, "VT_SETMODE", In),
    r(0x5603, "VT_GETSTATE", Out(6)), r(0x5605, "VT_RELDISP", In), r(0x5606, "VT_ACTIVATE", In),
    r(0x5607, "VT_WAITACTIVE", In), r(0x5608, "VT_DISALLOCATE", In),
    // Any descriptor.
    r(0x5450, "FIONCLEX", In), r(0x5451, "FIOCLEX", In), r(0x5452, "FIOASYNC", In), r(0x5460, "FIOQSIZE", Out(8)),
    // Files and file systems.
    r(0x1, "FIBMAP", InOut(4)), r(0x2, "FIGETBSZ", Out(4)), r(0xc004_5877, "FIFREEZE", In),
    r(0xc004_5878, "FITHAW", In), r(0xc018_5879, "FITRIM", InOut(24)), r(0x4004_9409, "FICLONE", In),
    r(0x4020_940d, "FICLONERANGE", In), r(0xc018_9436, "FIDEDUPERANGE", Fields(dedupe)),
    r(0xc020_660b, "FS_IOC_FIEMAP", Fields(fiemap)), r(0x8008_6601, "FS_IOC_GETFLAGS", InOut(8)),
    r(0x4008_6602, "FS_IOC_SETFLAGS", In), r(0x8008_7601, "FS_IOC_GETVERSION", InOut(8)),
    r(0x4008_7602, "FS_IOC_SETVERSION", In), r(0x801c_581f, "FS_IOC_FSGETXATTR", Out(28)),
    r(0x401c_5820, "FS_IOC_FSSETXATTR", In), r(0x8100_9431, "FS_IOC_GETFSLABEL", InOut(256)),
    r(0x4100_9432, "FS_IOC_SETFSLABEL", In), r(0x8011_1500, "FS_IOC_GETFSUUID", InOut(17)),
    r(0x8081_1501, "FS_IOC_GETFSSYSFSPATH", InOut(129)), r(0x4080_6685, "FS_IOC_ENABLE_VERITY", In),
    r(0xc004_6686, "FS_IOC_MEASURE_VERITY", Fields(measure)),
    // F2FS (`include/uapi/linux/f2fs.h`): SQLite asks every file's file system whether it is one.
    r(0xf501, "F2FS_IOC_START_ATOMIC_WRITE", In), r(0xf502, "F2FS_IOC_COMMIT_ATOMIC_WRITE", In),
    r(0xf503, "F2FS_IOC_START_VOLATILE_WRITE", In), r(0xf504, "F2FS_IOC_RELEASE_VOLATILE_WRITE", In),
    r(0xf505, "F2FS_IOC_ABORT_ATOMIC_WRITE", In), r(0x4004_f506, "F2FS_IOC_GARBAGE_COLLECT", In),
    r(0xf507, "F2FS_IOC_WRITE_CHECKPOINT", In), r(0xc010_f508, "F2FS_IOC_DEFRAGMENT", InOut(16)),
    r(0x8004_f50c, "F2FS_IOC_GET_FEATURES", InOut(4)), r(0x4004_f50d, "F2FS_IOC_SET_PIN_FILE", InOut(4)),
    r(0x8004_f50e, "F2FS_IOC_GET_PIN_FILE", InOut(4)), r(0xf50f, "F2FS_IOC_PRECACHE_EXTENTS", In),
    r(0x8008_f511, "F2FS_IOC_GET_COMPRESS_BLOCKS", InOut(8)),
    r(0x8008_f512, "F2FS_IOC_RELEASE_COMPRESS_BLOCKS", InOut(8)),
    r(0x8008_f513, "F2FS_IOC_RESERVE_COMPRESS_BLOCKS", InOut(8)),
    // Block devices and loops.
    r(0x0301, "HDIO_GETGEO", InOut(16)), r(0x125d, "BLKROSET", In), r(0x125e, "BLKROGET", Out(4)),
    r(0x125f, "BLKRRPART", In), r(0x1260, "BLKGETSIZE", Out(8)), r(0x1261, "BLKFLSBUF", In),
    r(0x1262, "BLKRASET", In), r(0x1263, "BLKRAGET", Out(8)), r(0x1264, "BLKFRASET", In),
    r(0x1265, "BLKFRAGET", Out(8)), r(0x1267, "BLKSECTGET", Out(2)), r(0x1268, "BLKSSZGET", Out(4)),
    r(0x8008_1270, "BLKBSZGET", InOut(8)), r(0x4008_1271, "BLKBSZSET", In), r(0x8008_1272, "BLKGETSIZE64", Out(8)),
    r(0x1277, "BLKDISCARD", In), r(0x1278, "BLKIOMIN", Out(4)), r(0x1279, "BLKIOOPT", Out(4)),
    r(0x127a, "BLKALIGNOFF", Out(4)), r(0x127b, "BLKPBSZGET", Out(4)), r(0x127c, "BLKDISCARDZEROES", Out(4)),
    r(0x127d, "BLKSECDISCARD", In), r(0x127e, "BLKROTATIONAL", Out(2)), r(0x127f, "BLKZEROOUT", In),
    r(0x8008_1280, "BLKGETDISKSEQ", Out(8)),
    r(0x4c00, "LOOP_SET_FD", In), r(0x4c01, "LOOP_CLR_FD", In), r(0x4c02, "LOOP_SET_STATUS", In),
    r(0x4c03, "LOOP_GET_STATUS", InOut(168)), r(0x4c04, "LOOP_SET_STATUS64", In),
    r(0x4c05, "LOOP_GET_STATUS64", InOut(232)), r(0x4c06, "LOOP_CHANGE_FD", In), r(0x4c07, "LOOP_SET_CAPACITY", In),
    r(0x4c08, "LOOP_SET_DIRECT_IO", In), r(0x4c09, "LOOP_SET_BLOCK_SIZE", In), r(0x4c0a, "LOOP_CONFIGURE", In),
    r(0x4c80, "LOOP_CTL_ADD", In), r(0x4c81, "LOOP_CTL_REMOVE", In), r(0x4c82, "LOOP_CTL_GET_FREE", In),
    // Sockets and network interfaces.
    r(0x8901, "FIOSETOWN", In), r(0x8902, "SIOCSPGRP", In), r(0x8903, "FIOGETOWN", Out(4)),
    r(0x8904, "SIOCGPGRP", Out(4)), r(0x8905, "SIOCATMARK", Out(4)), r(0x8906, "SIOCGSTAMP", Out(16)),
    r(0x8907, "SIOCGSTAMPNS", Out(16)), r(0x8010_8906, "SIOCGSTAMP_NEW", Out(16)),
    r(0x8010_8907, "SIOCGSTAMPNS_NEW", Out(16)), r(0x890b, "SIOCADDRT", In), r(0x890c, "SIOCDELRT", In),
    r(0x8910, "SIOCGIFNAME", IFREQ), r(0x8912, "SIOCGIFCONF", Fields(ifconf)), r(0x8913, "SIOCGIFFLAGS", IFREQ),
    r(0x8914, "SIOCSIFFLAGS", In), r(0x8915, "SIOCGIFADDR", IFREQ), r(0x8916, "SIOCSIFADDR", In),
    r(0x8917, "SIOCGIFDSTADDR", IFREQ), r(0x8918, "SIOCSIFDSTADDR", In), r(0x8919, "SIOCGIFBRDADDR", IFREQ),
    r(0x891a, "SIOCSIFBRDADDR", In), r(0x891b, "SIOCGIFNETMASK", IFREQ), r(0x891c, "SIOCSIFNETMASK", In),
    r(0x891d, "SIOCGIFMETRIC", IFREQ), r(0x891e, "SIOCSIFMETRIC", In), r(0x891f, "SIOCGIFMEM", IFREQ),
    r(0x8921, "SIOCGIFMTU", IFREQ), r(0x8922, "SIOCSIFMTU", In), r(0x8923, "SIOCSIFNAME", IFREQ),
    r(0x8924, "SIOCSIFHWADDR", In), r(0x8927, "SIOCGIFHWADDR", IFREQ), r(0x8929, "SIOCGIFSLAVE", IFREQ),
    r(0x8933, "SIOCGIFINDEX", IFREQ), r(0x8935, "SIOCGIFPFLAGS", IFREQ), r(0x8938, "SIOCGIFCOUNT", IFREQ),
    r(0x8942, "SIOCGIFTXQLEN", IFREQ), r(0x8943, "SIOCSIFTXQLEN", In),
    r(0x8946, "SIOCETHTOOL", Judged(ethtool)), r(0x8947, "SIOCGMIIPHY", IFREQ),
    r(0x8948, "SIOCGMIIREG", IFREQ), r(0x894c, "SIOCGSKNS", In), r(0x8954, "SIOCGARP", InOut(68)),
    r(0x8970, "SIOCGIFMAP", IFREQ),
    r(0x8b01, "SIOCGIWNAME", IWREQ), r(0x8b03, "SIOCGIWNWID", IWREQ), r(0x8b05, "SIOCGIWFREQ", IWREQ),
    r(0x8b07, "SIOCGIWMODE", IWREQ), r(0x8b09, "SIOCGIWSENS", IWREQ), r(0x8b0b, "SIOCGIWRANGE", Fields(iw_point)),
    r(0x8b0f, "SIOCGIWSTATS", Fields(iw_point)), r(0x8b15, "SIOCGIWAP", IWREQ),
    r(0x8b1b, "SIOCGIWESSID", Fields(iw_point)), r(0x8b1d, "SIOCGIWNICKN", Fields(iw_point)),
    r(0x8b21, "SIOCGIWRATE", IWREQ), r(0x8b23, "SIOCGIWRTS", IWREQ), r(0x8b25, "SIOCGIWFRAG", IWREQ),
    r(0x8b27, "SIOCGIWTXPOW", IWREQ), r(0x8b29, "SIOCGIWRETRY", IWREQ), r(0x8b2d, "SIOCGIWPOWER", IWREQ),
    r(0x4004_54ca, "TUNSETIFF", IFREQ), r(0x4004_54cb, "TUNSETPERSIST", In), r(0x4004_54cc, "TUNSETOWNER", In),
    r(0x4004_54cd, "TUNSETLINK", In), r(0x4004_54ce, "TUNSETGROUP", In), r(0x8004_54cf, "TUNGETFEATURES", Out(4)),
    r(0x4004_54d0, "TUNSETOFFLOAD", In), r(0x8004_54d2, "TUNGETIFF", IFREQ), r(0x8004_54d3, "TUNGETSNDBUF", Out(4)),
    r(0x4004_54d4, "TUNSETSNDBUF", In), r(0x8004_54d7, "TUNGETVNETHDRSZ", Out(4)),
    r(0x4004_54d8, "TUNSETVNETHDRSZ", In),
    // Clocks, randomness, namespaces, processes, epoll.
    r(0x7001, "RTC_AIE_ON", In), r(0x7002, "RTC_AIE_OFF", In), r(0x7003, "RTC_UIE_ON", In),
    r(0x7004, "RTC_UIE_OFF", In), r(0x7005, "RTC_PIE_ON", In), r(0x7006, "RTC_PIE_OFF", In),
    r(0x4024_7007, "RTC_ALM_SET", In), r(0x8024_7008, "RTC_ALM_READ", Out(36)), r(0x8024_7009, "RTC_RD_TIME", Out(36)),
    r(0x4024_700a, "RTC_SET_TIME", In), r(0x8008_700b, "RTC_IRQP_READ", Out(8)), r(0x4008_700c, "RTC_IRQP_SET", In),
    r(0x8008_700d, "RTC_EPOCH_READ", Out(8)), r(0x4028_700f, "RTC_WKALM_SET", In),
    r(0x8028_7010, "RTC_WKALM_RD", InOut(40)), r(0x8004_7013, "RTC_VL_READ", Out(4)),
    r(0x8004_5200, "RNDGETENTCNT", Out(4)), r(0x4004_5201, "RNDADDTOENTCNT", In), r(0x4008_5203, "RNDADDENTROPY", In),
    r(0x5204, "RNDZAPENTCNT", In), r(0x5206, "RNDCLEARPOOL", In), r(0x5207, "RNDRESEEDCRNG", In),
    r(0xb701, "NS_GET_USERNS", In), r(0xb702, "NS_GET_PARENT", In), r(0xb703, "NS_GET_NSTYPE", In),
    r(0xb704, "NS_GET_OWNER_UID", Out(4)), r(0x8008_b705, "NS_GET_MNTNS_ID", Out(8)),
    r(0xff01, "PIDFD_GET_CGROUP_NAMESPACE", In), r(0xff02, "PIDFD_GET_IPC_NAMESPACE", In),
    r(0xff03, "PIDFD_GET_MNT_NAMESPACE", In), r(0xff04, "PIDFD_GET_NET_NAMESPACE", In),
    r(0xff05, "PIDFD_GET_PID_NAMESPACE", In), r(0xff06, "PIDFD_GET_PID_FOR_CHILDREN_NAMESPACE", In),
    r(0xff07, "PIDFD_GET_TIME_NAMESPACE", In), r(0xff08, "PIDFD_GET_TIME_FOR_CHILDREN_NAMESPACE", In),
    r(0xff09, "PIDFD_GET_USER_NAMESPACE", In), r(0xff0a, "PIDFD_GET_UTS_NAMESPACE", In),
    r(0x4008_8a01, "EPIOCSPARAMS", In), r(0x8008_8a02, "EPIOCGPARAMS", Out(8)),
];
