"""ResNet of any depth of the papers, on synthetic images from a DataLoader; SGD with momentum, and mixed precision as an option."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models.resnet import Bottleneck, ResNet

# Blocks of each stage. The deep two are those that papers on memory train: 3 layers a block, and 2 more.
BLOCKS = {
    26: (2, 2, 2, 2),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    1001: (3, 94, 233, 3),
    2000: (3, 188, 472, 3),
}
PRECISIONS = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Images(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, self.size, self.size, generator=generator), index % self.classes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--depth", type=int, choices=BLOCKS, default=50)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pin-memory", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help="of autocast")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device(args.device)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    dtype = PRECISIONS[args.precision]
    model = ResNet(Bottleneck, BLOCKS[args.depth], args.classes).to(device, memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    loader = DataLoader(
        Images(args.batch * args.steps, args.size, args.classes),
        args.batch,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=args.pin_memory,
    )

    model.train()
    for step, (images, labels) in enumerate(loader):
        images = images.to(device, non_blocking=True, memory_format=layout)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
