# SPDX-License-Identifier: Apache-2.0
"""Turns a PyTorch function, module or KernelBench file into a task folder."""
