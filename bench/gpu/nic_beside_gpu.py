#!/usr/bin/env python3
"""Makes NCCL believe that a socket interface is a network card beside one GPU, so that it uses PXN.

    nic_beside_gpu.py DUMP OUT [INTERFACE]

DUMP is what NCCL_TOPO_DUMP_FILE wrote. OUT is for NCCL_TOPO_FILE: the first GPU and the interface (`lo`) are
behind one PCI switch. Other GPUs with NVLink to that GPU then hand their data to it, and its process does
their sends.
"""

import sys
import xml.etree.ElementTree as xml

dump, out = sys.argv[1:3]
interface = sys.argv[3] if len(sys.argv) > 3 else "lo"
tree = xml.parse(dump)
root = tree.getroot()

for node in root.iter():
    node.attrib.pop("host_hash", None)  # each simulated host has one of its own
# The interface as NCCL found it goes.
for parent in list(root.iter()):
    for nic in parent.findall("nic"):
        for net in nic.findall("net"):
            if net.get("name") == interface:
                nic.remove(net)
        if not len(nic):
            parent.remove(nic)

def gpus(node):
    return [pci for pci in node.findall("pci") if pci.find("gpu") is not None]


holder = next(node for node in root.iter() if gpus(node))
gpu = gpus(holder)[0]
link = {"link_speed": gpu.get("link_speed", "32.0 GT/s PCIe"), "link_width": gpu.get("link_width", "16")}
ids = {"vendor": "0x1000", "device": "0xc030", "subsystem_vendor": "0x1000", "subsystem_device": "0x1"}
switch = xml.Element("pci", busid="fffe:01:00.0", **{"class": "0x060400"}, **ids, **link)
holder.insert(list(holder).index(gpu), switch)
holder.remove(gpu)
switch.append(gpu)
card = xml.SubElement(switch, "pci", busid="fffe:02:00.0", **{"class": "0x020000"}, **ids, **link)
nic = xml.SubElement(card, "nic")
xml.SubElement(nic, "net", name=interface, dev="0", latency="0.000000", speed="10000", port="0",
               guid="0x0", maxconn="65536", gdr="0")
tree.write(out)
print(f"{interface} is beside the GPU {gpu.get('busid')} in {out}")
