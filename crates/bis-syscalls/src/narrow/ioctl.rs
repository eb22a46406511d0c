//! ioctl: by request. A request is made only if the layout of what its argument points to is known.
//!
//! A request whose number holds the size of its structure has another number where the sizes differ.

use super::layout::{Fields, Fresh, low, narrowed};
use super::room::{After, Made, Maker, Shape, When, made, refused};
use crate::errno::{EFBIG, ENOTTY};

const IOCTL: u64 = 16;

/// `struct ifreq`: a name of 16 bytes, and a union that is 16 bytes here and 24 on x86-64.
const IFREQ: u64 = 32;
const WIDE_IFREQ: u64 = 40;

pub(super) fn ioctl(m: &mut Maker<'_>) -> Made {
    let request = m.raw(1);
    match request {
        // FS_IOC32_GETFLAGS, SETFLAGS, GETVERSION, SETVERSION: the kernel reads and writes an `int` in both.
        0x8004_6601 | 0x4004_6602 | 0x8004_7601 | 0x4004_7602 => Ok(renumbered(m, request + 0x0004_0000)),
        // BLKBSZGET and BLKBSZSET: the same. BLKGETSIZE64 has 8 bytes in both.
        0x8004_1270 | 0x4004_1271 | 0x8004_1272 => Ok(renumbered(m, request + 0x0004_0000)),
        // BLKGETSIZE, BLKRAGET, BLKFRAGET: a long.
        0x1260 | 0x1263 | 0x1265 => filled(m, 8, long),
        // SIOCGSTAMP, SIOCGSTAMPNS: a time.
        0x8906 | 0x8907 => filled(m, 16, super::time::narrow),
        0x8912 => interfaces(m),
        _ if is_interface(request) => interface(m),
        _ if is_same(request) => Ok(m.plain(IOCTL)),
        _ => refused(ENOTTY, "an ioctl request whose argument's layout is not known for 32-bit programs"),
    }
}

fn renumbered(m: &Maker<'_>, request: u32) -> crate::model::Call {
    let mut call = m.plain(IOCTL);
    call.args[1] = request.into();
    call
}

/// A request that fills a structure of `len` bytes.
fn filled(m: &mut Maker<'_>, len: u64, shape: Shape) -> Made {
    made(IOCTL, [m.arg(0), m.arg(1), m.out(m.raw(2), len, shape)?])
}

fn long(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    if Fields(bytes).u64(0) > u32::MAX.into() { Err(EFBIG) } else { Ok(narrowed(bytes)) }
}

/// The requests about a network interface of which the union holds a number, a name or an address.
fn is_interface(request: u32) -> bool {
    matches!(
        request,
        0x8910 | 0x8913..=0x891e | 0x8921..=0x8924 | 0x8927 | 0x8929 | 0x8931..=0x8938 | 0x8942 | 0x8943
            // TUNSETIFF, TUNGETIFF
            | 0x4004_54ca | 0x8004_54d2
    )
}

fn interface(m: &mut Maker<'_>) -> Made {
    let mut bytes = m.read(m.arg(2), IFREQ)?;
    bytes.resize(super::layout::size(WIDE_IFREQ), 0);
    let at = m.lazy(When::Success, &bytes, m.raw(2), |bytes| Ok(bytes[..32].to_vec()))?;
    made(IOCTL, [m.arg(0), m.arg(1), at])
}

/// SIOCGIFCONF: the length of a buffer for `struct ifreq`, and its address; null asks for the length.
fn interfaces(m: &mut Maker<'_>) -> Made {
    let bytes = m.read(m.arg(2), 8)?;
    let (len, to) = (Fields(&bytes).u32(0), Fields(&bytes).u32(4));
    let mut conf = Fresh::new(16);
    if to != 0 {
        // A negative length has room for nothing.
        let count = (u64::try_from(len.cast_signed()).unwrap_or(0) / IFREQ).min((m.left() - 32) / WIDE_IFREQ);
        conf.u32(0, low(count * WIDE_IFREQ));
        conf.u64(8, m.space(count * WIDE_IFREQ)?);
    }
    let at = m.put(&conf.0)?;
    m.back(When::Success, interfaces_back, [at, m.arg(2), to.into(), 0]);
    made(IOCTL, [m.arg(0), m.arg(1), at])
}

fn interfaces_back(after: &mut After<'_>, [at, to, list_to, _]: [u64; 4]) -> Result<(), i32> {
    let bytes = after.bytes(at, 16)?;
    let conf = Fields(&bytes);
    let count = u64::from(conf.u32(0)) / WIDE_IFREQ;
    if list_to != 0 {
        let wide = after.bytes(conf.u64(8), count * WIDE_IFREQ)?;
        let list = wide.chunks_exact(40).flat_map(|interface| &interface[..32]).copied().collect();
        after.write(list_to, list);
    }
    after.write(to, low(count * IFREQ).to_le_bytes().to_vec());
    Ok(())
}

/// The requests whose argument is a number, or points to what has one layout.
fn is_same(request: u32) -> bool {
    is_terminal(request) || is_file(request) || is_socket(request) || is_other(request)
}

fn is_terminal(request: u32) -> bool {
    matches!(
        request,
        // TCGETS up to FIONREAD; TIOCCONS; TIOCPKT up to TIOCGETD; TCSBRKP up to TIOCGSID.
        0x5401..=0x541b | 0x541d | 0x5420..=0x5425 | 0x5427..=0x5429
            // TIOCVHANGUP, TIOCGPTPEER; FIONCLEX, FIOCLEX, FIOASYNC, TIOCMIWAIT, TIOCGICOUNT, FIOQSIZE.
            | 0x5437 | 0x5441 | 0x5450..=0x5452 | 0x545c | 0x545d | 0x5460
            // TCGETS2 and its kind; TIOCGPTN up to TIOCGEXCL.
            | 0x802c_542a | 0x402c_542b..=0x402c_542d
            | 0x8004_5430 | 0x4004_5431 | 0x8004_5432 | 0x4004_5436 | 0x8004_5438..=0x8004_5440
            // Consoles and keyboards.
            | 0x4b2f..=0x4b33 | 0x4b3a | 0x4b3b | 0x4b44 | 0x4b45 | 0x4b64 | 0x4b65 | 0x5600..=0x5608
    )
}

fn is_file(request: u32) -> bool {
    matches!(
        request,
        // FIBMAP, FIGETBSZ, FIFREEZE, FITHAW, FITRIM.
        0x1 | 0x2 | 0xc004_5877 | 0xc004_5878 | 0xc018_5879
            // FICLONE, FICLONERANGE, FIDEDUPERANGE, FS_IOC_FIEMAP: numbers of 64 bits, aligned.
            | 0x4004_9409 | 0x4020_940d | 0xc018_9436 | 0xc020_660b
            // FS_IOC_FSGETXATTR and SETXATTR, labels, FS_IOC_GETFSUUID and GETFSSYSFSPATH.
            | 0x801c_581f | 0x401c_5820 | 0x8100_9431 | 0x4100_9432 | 0x8011_1500 | 0x8081_1501
            // BLKROSET up to BLKRRPART, BLKFLSBUF, BLKRASET, BLKFRASET, BLKSECTGET, BLKSSZGET.
            | 0x125d..=0x125f | 0x1261 | 0x1262 | 0x1264 | 0x1267 | 0x1268
            // BLKDISCARD up to BLKZEROOUT, BLKGETDISKSEQ.
            | 0x1277..=0x127f | 0x8008_1280
            // Loops, but for the oldest status, which has longs.
            | 0x4c00 | 0x4c01 | 0x4c04..=0x4c0a | 0x4c80..=0x4c82
    )
}

fn is_socket(request: u32) -> bool {
    matches!(
        request,
        // FIOSETOWN up to SIOCATMARK; the stamps of 64 bits; SIOCGSKNS.
        0x8901..=0x8905 | 0x8010_8906 | 0x8010_8907 | 0x894c
            // TUNSETPERSIST up to TUNSETGROUP, TUNGETFEATURES up to TUNSETSNDBUF, header sizes.
            | 0x4004_54cb..=0x4004_54ce | 0x8004_54cf | 0x4004_54d0 | 0x8004_54d3 | 0x4004_54d4
            | 0x8004_54d7 | 0x4004_54d8
    )
}

fn is_other(request: u32) -> bool {
    matches!(
        request,
        // RTC_AIE_ON up to RTC_PIE_OFF; its times, which are nine numbers, and its alarm.
        0x7001..=0x7006 | 0x4024_7007 | 0x8024_7008 | 0x8024_7009 | 0x4024_700a | 0x4028_700f | 0x8028_7010
            // RNDGETENTCNT, RNDADDTOENTCNT, RNDADDENTROPY, RNDZAPENTCNT, RNDCLEARPOOL, RNDRESEEDCRNG.
            | 0x8004_5200 | 0x4004_5201 | 0x4008_5203 | 0x5204 | 0x5206 | 0x5207
            // Namespaces; descriptors of processes, PIDFD_GET_INFO included; parameters of epoll.
            | 0xb701..=0xb704 | 0x8008_b705 | 0xff01..=0xff0a | 0x4008_8a01 | 0x8008_8a02
    ) || (request & 0xc000_ffff == 0xc000_ff0b)
}
