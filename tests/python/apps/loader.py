# SPDX-License-Identifier: Apache-2.0
"""A data loader of PyTorch, whose workers put handlers of SIGSEGV and SIGBUS there.

usage: loader.py EPOCHS
"""
import sys

import torch
from torch.utils.data import DataLoader, Dataset

ITEMS = 400
WORKERS = 2


class Items(Dataset):
    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        x = 0
        for i in range(4000):
            x = (x + i * index) & 0xffff
        return torch.tensor([float(index)])


if __name__ == "__main__":
    total = 0.0
    for _ in range(int(sys.argv[1])):
        for batch in DataLoader(Items(), batch_size=20, num_workers=WORKERS):
            total += float(batch.sum())
    print("DONE", total)
