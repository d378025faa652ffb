// The forms in which weights lie on the device, by name: see formats.cuh.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_FORMAT_H
#define PALAVER_KERNELS_CUDA_DEVICE_FORMAT_H

typedef enum Format {
    FORMAT_F32,
    FORMAT_F16,
    FORMAT_BF16,
    FORMAT_Q8,
    FORMAT_Q8S,
    FORMAT_Q8M,
    FORMAT_Q4,
    FORMAT_Q4M,
    FORMAT_W8
} Format;

#endif
