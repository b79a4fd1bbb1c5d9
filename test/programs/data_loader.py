"""A script with a DataLoader, numpy metrics, an evaluation every few steps, and a checkpoint that is saved and loaded midway."""

import argparse
import io
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def make_model(features, classes, width=320, depth=6):
    layers = [nn.Linear(features, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))


def make_datasets(rows, features, classes):
    """Clusters around random centres, split into a training and a validation set."""
    centres = np.random.default_rng(16).normal(size=(classes, features)).astype(np.float32)
    labels = torch.arange(rows) % classes
    points = torch.from_numpy(centres)[labels] + 1.5 * torch.randn(rows, features)
    return random_split(TensorDataset(points, labels), [0.75, 0.25])


def evaluate(model, loader, classes, device):
    """Accuracy and the confusion matrix, computed in numpy."""
    model.eval()
    confusion = np.zeros((classes, classes), dtype=np.int64)
    confidence = []
    with torch.no_grad():
        for points, labels in loader:
            probabilities = F.softmax(model(points.to(device)), dim=1).cpu().numpy()
            np.add.at(confusion, (labels.numpy(), probabilities.argmax(axis=1)), 1)
            confidence.append(probabilities.max(axis=1))
    model.train()
    return confusion.trace() / confusion.sum(), float(np.concatenate(confidence).mean())


def save(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--evaluate-every", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(17)
    features, classes = 64, 12
    train, validation = make_datasets(4 * args.batch, features, classes)
    train_loader = DataLoader(train, args.batch, shuffle=True, drop_last=True)
    validation_loader = DataLoader(validation, args.batch // 2)
    model = make_model(features, classes).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    step = 0
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "checkpoint.pt")
        while step < args.steps:
            for points, labels in train_loader:
                loss = F.cross_entropy(model(points.to(args.device)), labels.to(args.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print_step(step, loss)
                step += 1
                if step % args.evaluate_every == 0:
                    accuracy, confidence = evaluate(model, validation_loader, classes, args.device)
                    print(f"accuracy {accuracy:.4f} confidence {confidence.hex()}")
                if step == args.steps // 2:
                    save(checkpoint, model, optimizer, step)
                    model, saved = make_model(features, classes).to(args.device), torch.load(checkpoint)
                    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
                    model.load_state_dict(saved["model"])
                    optimizer.load_state_dict(saved["optimizer"])
                if step == args.steps:
                    break

    memory = io.BytesIO()
    save(memory, model, optimizer, step)
    print(f"checkpoint {len(memory.getvalue()) >> 10} KiB")
    memory.seek(0)
    print_digest(model, optimizer, torch.load(memory))


if __name__ == "__main__":
    main()
