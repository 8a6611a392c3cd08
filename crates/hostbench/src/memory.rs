//! Memory: bandwidth, shared memory, NUMA nodes and huge pages.
//!
//! Bandwidths are of one thread over an area larger than its caches, as STREAM measures (J. D. McCalpin,
//! "Memory bandwidth and machine balance in current high performance computers", IEEE TCCA Newsletter, 1995).
//! Latencies are of loads that each wait for the one before, in random order, as lat_mem_rd of lmbench.

use crate::item::{last_error, Items, Unit};
use crate::placement::CpuPlacement;
use crate::sockets::short;
use crate::timing::{bandwidth, best};
use std::ffi::CString;
use std::hint::black_box;
use std::ptr::null_mut;
use std::time::Instant;

/// The area of bandwidths.
const AREA: usize = 256 << 20;
/// The area of latencies: 16 384 pages, more than a TLB holds.
const CHASED: usize = 64 << 20;
/// A line of the cache.
const LINE: usize = 64;
const PASSES: usize = 5;
/// Memory that must be free for the areas.
const NEEDED: u64 = 1 << 30;

/// Memory that the kernel maps for this, and takes back.
struct Area {
    at: *mut u8,
    bytes: usize,
}

impl Area {
    fn new(bytes: usize, flags: libc::c_int) -> Result<Area, String> {
        Area::of(bytes, flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn of(bytes: usize, flags: libc::c_int, file: libc::c_int) -> Result<Area, String> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe { libc::mmap(null_mut(), bytes, access, flags, file, 0) };
        if at == libc::MAP_FAILED {
            return Err(last_error("mmap"));
        }
        Ok(Area {
            at: at.cast(),
            bytes,
        })
    }

    fn advise(&self, advice: libc::c_int) -> bool {
        // SAFETY: this mapping.
        unsafe { libc::madvise(self.at.cast(), self.bytes, advice) == 0 }
    }

    fn fill(&mut self, byte: u8) {
        // SAFETY: this mapping, which can be written to and which nobody else has.
        unsafe { self.at.write_bytes(black_box(byte), self.bytes) };
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: this mapping, whole words of it, borrowed as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.bytes / 8) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: unmaps only what this value mapped; no pointer into it is left.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// All of them.
pub fn measure(items: &mut Items, place: &CpuPlacement) {
    let free = match available() {
        Some(free) if free < NEEDED => {
            Err(format!("less than 1 GiB of memory is free ({free} bytes)"))
        }
        _ => Ok(()),
    };
    bandwidths(items, &free);
    shared(items);
    nodes(items, place, &free);
    huge_pages(items, &free);
}

/// Bytes that the kernel can give without swapping.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

fn bandwidths(items: &mut Items, free: &Result<(), String>) {
    items.group("Memory");
    let measured = free.clone().and_then(|()| {
        let mut area = Area::new(AREA, 0)?;
        area.fill(1);
        let write = bandwidth(AREA, PASSES, || area.fill(2));
        let read = bandwidth(AREA, PASSES, || _ = black_box(sum(area.words())));
        let half = AREA / 16;
        let copy = bandwidth(AREA / 2, PASSES, || {
            let (from, to) = area.words().split_at_mut(half);
            black_box(to).copy_from_slice(black_box(from));
        });
        Ok([read, write, copy])
    });
    let size = short(AREA);
    for (at, (name, what)) in [
        ("memory_read", format!("one thread reads {size}")),
        ("memory_write", format!("one thread writes {size}")),
        (
            "memory_copy",
            format!("one thread copies {}, bytes copied", short(AREA / 2)),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let value = measured.clone().map(|all| all[at]);
        items.add(name, Unit::GbPerS, &what, value);
    }
}

/// In parts, so that no addition waits for another.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0u64; 16];
    for part in words.chunks_exact(16) {
        for (sum, word) in sums.iter_mut().zip(part) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// Segments as NCCL makes them between the processes of a host.
fn shared(items: &mut Items) {
    items.group("Shared memory");
    for bytes in [4 << 10, 64 << 10, 1 << 20, 4 << 20] {
        let name = format!("shm_create_{}", short(bytes));
        let what = format!(
            "shared memory of {}: created, mapped, filled, unmapped, removed",
            short(bytes)
        );
        // Once, to see if it can be done.
        let value = segment(bytes).map(|_| best(|| _ = segment(bytes)) / 1e3);
        items.add(&name, Unit::Micros, &what, value);
    }
    let bytes = 4 << 20;
    let made = segment(bytes).map(|mut area| {
        let write = bandwidth(bytes, 50, || area.fill(2));
        let read = bandwidth(bytes, 50, || _ = black_box(sum(area.words())));
        [read, write]
    });
    for (at, (name, what)) in [
        (
            "shm_read_4M",
            "one thread reads 4M of shared memory, again and again",
        ),
        (
            "shm_write_4M",
            "one thread writes 4M of shared memory, again and again",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        items.add(name, Unit::GbPerS, what, made.clone().map(|all| all[at]));
    }
}

fn segment(bytes: usize) -> Result<Area, String> {
    let name = format!("/ncclscope-hostbench-{}", std::process::id());
    let name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: a name that ends with 0, and descriptors and lengths that are checked; the name goes at once.
    let area = unsafe {
        let file = libc::shm_open(
            name.as_ptr(),
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
            0o600,
        );
        if file < 0 {
            return Err(last_error("shm_open"));
        }
        libc::shm_unlink(name.as_ptr());
        // As NCCL does. A file that is only made long would end the process with SIGBUS if /dev/shm is full.
        let area = match libc::posix_fallocate(file, 0, bytes as libc::off_t) {
            0 => Area::of(bytes, libc::MAP_SHARED, file),
            error => Err(format!(
                "posix_fallocate: {}",
                std::io::Error::from_raw_os_error(error)
            )),
        };
        libc::close(file);
        area
    };
    let mut area = area?;
    area.fill(1);
    Ok(area)
}

const MPOL_BIND: libc::c_long = 2;

/// An area whose pages are of one node.
fn on_node(node: usize, bytes: usize) -> Result<Area, String> {
    let mut area = Area::new(bytes, 0)?;
    let mut mask = [0u64; 16];
    let word = mask.get_mut(node / 64).ok_or("a node above 1023")?;
    *word |= 1 << (node % 64);
    // SAFETY: this mapping, and a mask of as many bits as is said.
    let bound = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            area.at,
            bytes,
            MPOL_BIND,
            mask.as_ptr(),
            mask.len() * 64,
            0,
        )
    };
    if bound != 0 {
        return Err(last_error("mbind"));
    }
    area.fill(1);
    Ok(area)
}

fn nodes(items: &mut Items, place: &CpuPlacement, free: &Result<(), String>) {
    items.group("NUMA");
    for (where_, node, why) in [
        (
            "local",
            place.node.filter(|_| place.far.is_some()),
            "one NUMA node",
        ),
        ("remote", place.far, "one NUMA node"),
    ] {
        let measured = node.ok_or_else(|| why.to_owned()).and_then(|node| {
            free.clone()?;
            let mut area = on_node(node, AREA)?;
            let read = bandwidth(AREA, PASSES, || _ = black_box(sum(area.words())));
            drop(area);
            let mut area = on_node(node, CHASED)?;
            Ok([read, chase(&mut area)])
        });
        let of = match where_ {
            "local" => "the thread's own node",
            _ => "the farthest node",
        };
        items.add(
            &format!("numa_{where_}_read"),
            Unit::GbPerS,
            &format!("one thread reads {} of {of}", short(AREA)),
            measured.clone().map(|all| all[0]),
        );
        items.add(
            &format!("numa_{where_}_latency"),
            Unit::Nanos,
            &format!("a load from {of}, random order"),
            measured.map(|all| all[1]),
        );
    }
}

/// Nanoseconds of a load that waits for the one before, over all lines of an area in random order.
fn chase(area: &mut Area) -> f64 {
    let lines = area.bytes / LINE;
    let step = LINE / 8;
    let words = area.words();
    // One cycle through all lines (S. Sattolo, "An algorithm to generate a random cyclic permutation",
    // Information Processing Letters 22(6), 1986).
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..lines).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(last, (random % last as u64) as usize);
    }
    for (from, to) in order.iter().enumerate() {
        words[from * step] = u64::from(*to);
    }
    let mut at = 0;
    let mut pass = |loads: usize| {
        let start = Instant::now();
        for _ in 0..loads {
            at = words[at as usize * step];
        }
        black_box(at);
        start.elapsed().as_nanos() as f64 / loads as f64
    };
    let loads = lines / 8;
    pass(loads);
    (0..PASSES)
        .map(|_| pass(loads))
        .fold(f64::INFINITY, f64::min)
}

fn huge_pages(items: &mut Items, free: &Result<(), String>) {
    items.group("Huge pages");
    type Make = fn() -> Result<Area, String>;
    let kinds: [(&str, &str, Make); 3] = [
        ("small", "small pages", || {
            let area = Area::new(CHASED, 0)?;
            area.advise(libc::MADV_NOHUGEPAGE);
            Ok(area)
        }),
        ("transparent", "transparent huge pages", || {
            let file = "/sys/kernel/mm/transparent_hugepage/enabled";
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if text.is_empty() || text.contains("[never]") {
                return Err("transparent huge pages are off".to_owned());
            }
            let area = Area::new(CHASED, 0)?;
            if area.advise(libc::MADV_HUGEPAGE) {
                Ok(area)
            } else {
                Err(last_error("madvise(MADV_HUGEPAGE)"))
            }
        }),
        ("reserved", "reserved huge pages (MAP_HUGETLB)", || {
            Area::new(CHASED, libc::MAP_HUGETLB).map_err(|_| {
                "no 64 MiB of huge pages are reserved and free (vm.nr_hugepages)".to_owned()
            })
        }),
    ];
    for (kind, what, make) in kinds {
        let measured = free.clone().and_then(|()| {
            let mut fill_us = f64::INFINITY;
            let mut last = None;
            for _ in 0..3 {
                // The one before is given back first.
                drop(last.take());
                let mut area = make()?;
                let start = Instant::now();
                area.fill(1);
                fill_us = fill_us.min(start.elapsed().as_nanos() as f64 / 1e3);
                last = Some(area);
            }
            let mut area = last.ok_or("no area")?;
            if kind == "transparent" && !is_huge(&area) {
                return Err("the kernel gave no huge pages".to_owned());
            }
            Ok([fill_us / (CHASED >> 20) as f64, chase(&mut area)])
        });
        items.add(
            &format!("page_fill_{kind}"),
            Unit::Micros,
            &format!("first write to 1 MiB, {what}"),
            measured.clone().map(|all| all[0]),
        );
        items.add(
            &format!("page_load_{kind}"),
            Unit::Nanos,
            &format!("a load from {}, random order, {what}", short(CHASED)),
            measured.map(|all| all[1]),
        );
    }
}

/// Whether at least half of an area has huge pages.
fn is_huge(area: &Area) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (from, to) = (area.at as usize, area.at as usize + area.bytes);
    let mut inside = false;
    let mut kib = 0;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|r| r.split_once('-'));
        let hex = |text: &str| usize::from_str_radix(text, 16).ok();
        if let Some((Some(a), Some(b))) = range.map(|(a, b)| (hex(a), hex(b))) {
            inside = a < to && b > from;
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
            kib += rest
                .split_whitespace()
                .next()
                .and_then(|n| n.parse::<usize>().ok())
                .unwrap_or(0);
        }
    }
    kib << 10 >= area.bytes / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_goes_through_every_line() {
        let mut area = Area::new(1 << 20, 0).expect("memory");
        assert!(chase(&mut area) > 0.0);
        let step = LINE / 8;
        let (mut at, mut seen) = (0usize, 0);
        loop {
            at = area.words()[at * step] as usize;
            seen += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(seen, (1 << 20) / LINE);
    }

    #[test]
    fn sums_have_every_word() {
        let words: Vec<u64> = (0..160).collect();
        assert_eq!(sum(&words), 159 * 160 / 2);
    }

    #[test]
    fn segments_leave_no_file() {
        segment(1 << 20).expect("shared memory");
        let own = format!("ncclscope-hostbench-{}", std::process::id());
        let left = std::fs::read_dir("/dev/shm").expect("/dev/shm");
        assert!(left.flatten().all(|file| file.file_name() != *own));
    }
}
