//! The links of the hosts in the page: a matrix of GPUs and network cards, and the rings and trees that NCCL
//! made of them.

use super::{escaped, Page};
use crate::layout::plural;
use crate::topo::ways;
use analyze::topology::Host;
use setup::topology::{compare, Topology};
use std::fmt::Write as _;

/// Different hosts that have a matrix.
const MOST: usize = 8;

impl Page<'_> {
    pub(super) fn topology(&mut self) {
        if self.report.topologies.is_empty() {
            return;
        }
        self.section(
            "topology",
            "Topology",
            "How GPUs and network cards of a host are linked. NV: number of NVLinks; PIX, PXB: one PCIe \
             switch, several; PHB: the host bridge of a socket; NODE: several of them; SYS: between sockets. \
             Hosts that are alike have one matrix. `ncclscope topo` prints it, and compares two.",
        );
        let alike = alike(&self.report.topologies);
        for hosts in alike.iter().take(MOST) {
            self.host(hosts);
        }
        if alike.len() > MOST {
            let more = plural((alike.len() - MOST) as u64, "other kind", "other kinds");
            let _ = writeln!(self.html, "<p class=\"about\">… {more} of hosts.</p>");
        }
        self.end();
    }

    /// Hosts that are alike.
    fn host(&mut self, hosts: &[&Host]) {
        let Some(first) = hosts.first() else {
            return;
        };
        let others = match hosts.len() {
            1 => String::new(),
            n => format!(" and {} like it", plural(n as u64 - 1, "host", "hosts")),
        };
        let _ = writeln!(self.html, "<h3>{}{others}</h3>", escaped(&first.host));
        for host in hosts {
            for remark in &host.remarks {
                let sentence = escaped(&format!("{}: {}", host.host, remark.sentence));
                let _ = writeln!(self.html, "<p>{sentence}</p>");
            }
        }
        self.html += &matrix(&first.host, &first.topology);
        let ways = ways(&first.graphs);
        if ways.is_empty() {
            return;
        }
        self.html +=
            "<h3>Rings and trees by channel</h3>\n<p class=\"about\">Of the communicator that was made \
                      last.</p>\n";
        self.rows(
            "Rings and trees",
            &["graph", "channels", "GB/s", "links", "way"],
            &ways,
        );
    }

    /// A table of texts.
    fn rows(&mut self, name: &str, heads: &[&str], rows: &[[String; 5]]) {
        let _ = write!(self.html, "{}<thead><tr>", frame(name, ""));
        for head in heads {
            let _ = write!(
                self.html,
                "<th scope=\"col\" class=\"t\">{}</th>",
                escaped(head)
            );
        }
        self.html += "</tr></thead>\n<tbody>\n";
        for row in rows {
            self.html += "<tr>";
            for cell in row {
                let _ = write!(self.html, "<td class=\"t\">{}</td>", escaped(cell));
            }
            self.html += "</tr>\n";
        }
        self.html += "</tbody></table></div>\n";
    }
}

/// Hosts by what their links are, those with remarks first.
fn alike(hosts: &[Host]) -> Vec<Vec<&Host>> {
    let mut alike: Vec<Vec<&Host>> = Vec::new();
    for host in hosts {
        let same = |others: &&mut Vec<&Host>| {
            let first = &others[0].topology;
            first.devices.len() == host.topology.devices.len()
                && compare(first, &host.topology).is_empty()
        };
        match alike.iter_mut().find(same) {
            Some(others) => others.push(host),
            None => alike.push(vec![host]),
        }
    }
    alike.sort_by_key(|hosts| hosts.iter().all(|host| host.remarks.is_empty()));
    alike
}

/// A table's beginning, in a frame of its own in which it can be scrolled.
fn frame(name: &str, class: &str) -> String {
    let name = escaped(name);
    format!(
        "<div class=\"frame\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\"><table{class} \
         aria-label=\"{name}\">\n"
    )
}

fn matrix(host: &str, topology: &Topology) -> String {
    let mut out = frame(&format!("Links of {host}"), " class=\"matrix\"");
    out += "<thead><tr><th scope=\"col\"></th>";
    for device in &topology.devices {
        let title = escaped(&device.title());
        let name = escaped(&device.name);
        let _ = write!(out, "<th scope=\"col\" title=\"{title}\">{name}</th>");
    }
    out += "<th scope=\"col\" class=\"t\">device</th><th scope=\"col\">NUMA</th>\
            <th scope=\"col\" class=\"t\">CPUs</th></tr></thead>\n<tbody>\n";
    for (device, links) in topology.devices.iter().zip(&topology.links) {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(&device.name));
        for link in links {
            let _ = write!(out, "<td class=\"{}\">{}</td>", class(link), escaped(link));
        }
        let numa = device.numa.map_or("-".to_owned(), |numa| numa.to_string());
        let text = |text: &Option<String>| escaped(text.as_deref().unwrap_or("-"));
        let _ = writeln!(
            out,
            "<td class=\"t\">{}</td><td>{numa}</td><td class=\"t\">{}</td></tr>",
            text(&device.label),
            text(&device.cpus)
        );
    }
    out += "</tbody></table></div>\n";
    out
}

/// How near two devices are, for the eye; the cell says it, too.
fn class(link: &str) -> &'static str {
    match link {
        "X" => "self",
        "PIX" | "PXB" => "near",
        "SYS" => "far",
        link if link.starts_with("NV") => "direct",
        _ => "middle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::topology::of_file;
    use tables::Capture;

    /// Two GPUs with or without NVLink, and a card beside the first.
    fn host(name: &str, link: &str) -> Host {
        let text = format!(
            "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n\
             GPU0\t X \t{link}\tPIX\t0-3\t0\n\
             GPU1\t{link}\t X \tSYS\t4-7\t1\n\
             NIC0\tPIX\tSYS\t X \t\t\n\nNIC Legend:\n\n  NIC0: <b>mlx5_0\n"
        );
        of_file(name.to_owned(), Topology::read(&text).expect("a matrix"))
    }

    fn page(hosts: Vec<Host>) -> String {
        let mut report = analyze::report(&Capture::default());
        report.topologies = hosts;
        let mut out = Vec::new();
        super::super::write(&report, &mut out).expect("in memory");
        let page = String::from_utf8(out).expect("text");
        let begin = page.find("id=\"topology\">");
        let page = begin.map_or("", |begin| &page[begin..]);
        page.split("</details>")
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    #[test]
    fn each_kind_of_host_has_a_matrix() {
        let page = page(vec![
            host("n1", "NV18"),
            host("n2", "NV18"),
            host("n3", "SYS"),
        ]);
        assert_eq!(page.matches("class=\"matrix\"").count(), 2, "{page}");
        assert!(page.contains("<h3>n1 and 1 host like it</h3>"), "{page}");
        let row = "<tr><th scope=\"row\">GPU1</th><td class=\"direct\">NV18</td><td class=\"self\">X</td>\
                   <td class=\"far\">SYS</td>";
        assert!(page.contains(row), "{page}");
        assert!(
            page.contains("&lt;b&gt;mlx5_0") && !page.contains("<b>"),
            "{page}"
        );
    }

    #[test]
    fn rings_are_shown_and_hosts_without_links_are_not() {
        let mut host = host("n1", "NV18");
        host.graphs = vec![setup::topology::GraphChoice {
            name: "ring".to_owned(),
            gb_per_s: Some(20.0),
            links: Some("NVL".to_owned()),
            channels: vec![vec!["GPU0".to_owned(), "GPU1".to_owned()]; 16],
        }];
        let row = "<td class=\"t\">ring</td><td class=\"t\">16</td><td class=\"t\">20</td>";
        assert!(page(vec![host]).contains(row));
        assert_eq!(page(Vec::new()), "");
    }
}
