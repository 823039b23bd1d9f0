// The register lists of wgmma.cuh for a WIDTH of 96 to 256 in steps of 32; they begin with its own.
#pragma once

#define REGISTERS_96 \
  REGISTERS_64       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define REGISTERS_128 \
  REGISTERS_96        \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_160 \
  REGISTERS_128       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define REGISTERS_192 \
  REGISTERS_160       \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define REGISTERS_224 \
  REGISTERS_192       \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define REGISTERS_256 \
  REGISTERS_224       \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define OPERANDS_96(c) OPERANDS_64(c), EIGHT(c, 32), EIGHT(c, 40)
#define OPERANDS_128(c) OPERANDS_96(c), EIGHT(c, 48), EIGHT(c, 56)
#define OPERANDS_160(c) OPERANDS_128(c), EIGHT(c, 64), EIGHT(c, 72)
#define OPERANDS_192(c) OPERANDS_160(c), EIGHT(c, 80), EIGHT(c, 88)
#define OPERANDS_224(c) OPERANDS_192(c), EIGHT(c, 96), EIGHT(c, 104)
#define OPERANDS_256(c) OPERANDS_224(c), EIGHT(c, 112), EIGHT(c, 120)
#define AFTER_96(use) use("%48", "%49", "%50")
#define AFTER_128(use) use("%64", "%65", "%66")
#define AFTER_160(use) use("%80", "%81", "%82")
#define AFTER_192(use) use("%96", "%97", "%98")
#define AFTER_224(use) use("%112", "%113", "%114")
#define AFTER_256(use) use("%128", "%129", "%130")
