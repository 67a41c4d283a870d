// Instruction words and register map.
// Generated from ir/isa.py and ir/regmap.py by `python -m dpu.ir.isa_doc`; do not edit.

package dpu_isa_pkg;

  /* verilator lint_off UNUSEDPARAM */  // a module uses the constants that it needs

  parameter int unsigned AbiVersion = 1;
  parameter int unsigned WordBits = 512;
  parameter int unsigned WordBytes = 64;
  parameter int unsigned MaxTokens = 255;
  parameter int unsigned SemaphoresPerPair = 4;
  parameter int unsigned BaseRegisters = 8;
  parameter int unsigned TableSlots = 2;
  parameter int unsigned TableBytes = 4160;

  // Codes.

  typedef enum logic [7:0] {
    OpcodeLoad = 8'd1,
    OpcodeMm = 8'd2,
    OpcodeVec = 8'd3,
    OpcodeStore = 8'd4,
    OpcodeEnd = 8'd5
  } opcode_e;

  typedef enum logic [3:0] {
    EngineLoad = 4'd0,
    EngineMxu = 4'd1,
    EngineVpu = 4'd2,
    EngineStore = 4'd3,
    EngineCtrl = 4'd4
  } engine_e;

  typedef enum logic [3:0] {
    BufferAct = 4'd0,
    BufferWgt = 4'd1,
    BufferAcc = 4'd2,
    BufferVbuf = 4'd3,
    BufferParam = 4'd4,
    BufferTable = 4'd5,
    BufferNone = 4'd15
  } buffer_e;

  typedef enum logic [7:0] {
    FlagDrain = 8'd1,
    FlagTrap = 8'd2,
    FlagIrq = 8'd4
  } flag_e;

  typedef enum logic [3:0] {
    DmaFormatRaw = 4'd0,
    DmaFormatFill = 4'd1,
    DmaFormatInt4 = 4'd2,
    DmaFormatTranspose = 4'd3
  } dma_format_e;

  typedef enum logic [3:0] {
    MmModeZero = 4'd0,
    MmModeAccumulate = 4'd1,
    MmModeColumn = 4'd2
  } mm_mode_e;

  typedef enum logic [3:0] {
    RowMaxNone = 4'd0,
    RowMaxInit = 4'd1,
    RowMaxAccumulate = 4'd2
  } row_max_e;

  typedef enum logic [3:0] {
    FormatI32 = 4'd0,
    FormatF32 = 4'd1,
    FormatF16 = 4'd2,
    FormatI8 = 4'd3,
    FormatI8Offset = 4'd4,
    FormatI15Split = 4'd5
  } format_e;

  typedef enum logic [3:0] {
    OperandNone = 4'd0,
    OperandImm0 = 4'd1,
    OperandImm1 = 4'd2,
    OperandRow = 4'd3,
    OperandCol = 4'd4,
    OperandElem = 4'd5
  } operand_e;

  typedef enum logic [3:0] {
    FunctionNone = 4'd0,
    FunctionExp2 = 4'd1,
    FunctionRecip = 4'd2,
    FunctionRsqrt = 4'd3,
    FunctionGate = 4'd4,
    FunctionGateMul = 4'd5
  } function_e;

  typedef enum logic [3:0] {
    Op2None = 4'd0,
    Op2Mul = 4'd1,
    Op2Add = 4'd2,
    Op2Max = 4'd3
  } op2_e;

  typedef enum logic [3:0] {
    ReduceNone = 4'd0,
    ReduceMax = 4'd1,
    ReduceAbsmax = 4'd2,
    ReduceSum = 4'd3,
    ReduceSumSq = 4'd4
  } reduce_e;

  // Words, and for each field its least significant bit (Lsb), bits of an element (W), elements (N).

  // Header of every word, and the whole of END
  typedef struct packed {
    logic [55:0][7:0] reserved;
    logic [15:0] signal_mask;
    logic [15:0] wait_mask;
    logic [15:0] tag;
    logic [7:0] flags;
    logic [7:0] opcode;
  } header_word_t;

  parameter int unsigned HeaderOpcodeLsb = 0;
  parameter int unsigned HeaderOpcodeW = 8;
  parameter int unsigned HeaderFlagsLsb = 8;
  parameter int unsigned HeaderFlagsW = 8;
  parameter int unsigned HeaderTagLsb = 16;
  parameter int unsigned HeaderTagW = 16;
  parameter int unsigned HeaderWaitLsb = 32;
  parameter int unsigned HeaderWaitW = 16;
  parameter int unsigned HeaderSignalLsb = 48;
  parameter int unsigned HeaderSignalW = 16;

  // LOAD and STORE
  typedef struct packed {
    logic [3:0][7:0] reserved;
    logic [3:0][7:0] pad;
    logic [2:0][15:0] sstride;
    logic signed [2:0][31:0] dstride;
    logic [2:0][15:0] n;
    logic [31:0] inner;
    logic [31:0] sram;
    logic [63:0] offset;
    logic signed [7:0] fill;
    logic [7:0] format;
    logic [7:0] buffer;
    logic [7:0] base;
    logic [31:0] remote;
    logic [15:0] signal_mask;
    logic [15:0] wait_mask;
    logic [15:0] tag;
    logic [7:0] flags;
    logic [7:0] opcode;
  } dma_word_t;

  parameter int unsigned DmaRemoteLsb = 64;
  parameter int unsigned DmaRemoteW = 32;
  parameter int unsigned DmaBaseLsb = 96;
  parameter int unsigned DmaBaseW = 8;
  parameter int unsigned DmaBufferLsb = 104;
  parameter int unsigned DmaBufferW = 8;
  parameter int unsigned DmaFormatLsb = 112;
  parameter int unsigned DmaFormatW = 8;
  parameter int unsigned DmaFillLsb = 120;
  parameter int unsigned DmaFillW = 8;
  parameter int unsigned DmaOffsetLsb = 128;
  parameter int unsigned DmaOffsetW = 64;
  parameter int unsigned DmaSramLsb = 192;
  parameter int unsigned DmaSramW = 32;
  parameter int unsigned DmaInnerLsb = 224;
  parameter int unsigned DmaInnerW = 32;
  parameter int unsigned DmaNLsb = 256;
  parameter int unsigned DmaNW = 16;
  parameter int unsigned DmaNN = 3;
  parameter int unsigned DmaDstrideLsb = 304;
  parameter int unsigned DmaDstrideW = 32;
  parameter int unsigned DmaDstrideN = 3;
  parameter int unsigned DmaSstrideLsb = 400;
  parameter int unsigned DmaSstrideW = 16;
  parameter int unsigned DmaSstrideN = 3;
  parameter int unsigned DmaPadLsb = 448;
  parameter int unsigned DmaPadW = 8;
  parameter int unsigned DmaPadN = 4;

  // MM
  typedef struct packed {
    logic [11:0][7:0] reserved;
    logic [15:0] valid;
    logic [15:0] init_at;
    logic [15:0] rowmax_at;
    logic [7:0] rowmax;
    logic [7:0] mode;
    logic [15:0] an;
    logic [15:0] wn;
    logic [15:0] nn;
    logic [15:0] sky;
    logic [15:0] skx;
    logic [7:0] nky;
    logic [7:0] nkx;
    logic [15:0] sc;
    logic [15:0] nc;
    logic [15:0] sy;
    logic [15:0] sx;
    logic [15:0] ny;
    logic [15:0] nx;
    logic [31:0] acc;
    logic [31:0] wgt;
    logic [31:0] act;
    logic [15:0] signal_mask;
    logic [15:0] wait_mask;
    logic [15:0] tag;
    logic [7:0] flags;
    logic [7:0] opcode;
  } mm_word_t;

  parameter int unsigned MmActLsb = 64;
  parameter int unsigned MmActW = 32;
  parameter int unsigned MmWgtLsb = 96;
  parameter int unsigned MmWgtW = 32;
  parameter int unsigned MmAccLsb = 128;
  parameter int unsigned MmAccW = 32;
  parameter int unsigned MmNxLsb = 160;
  parameter int unsigned MmNxW = 16;
  parameter int unsigned MmNyLsb = 176;
  parameter int unsigned MmNyW = 16;
  parameter int unsigned MmSxLsb = 192;
  parameter int unsigned MmSxW = 16;
  parameter int unsigned MmSyLsb = 208;
  parameter int unsigned MmSyW = 16;
  parameter int unsigned MmNcLsb = 224;
  parameter int unsigned MmNcW = 16;
  parameter int unsigned MmScLsb = 240;
  parameter int unsigned MmScW = 16;
  parameter int unsigned MmNkxLsb = 256;
  parameter int unsigned MmNkxW = 8;
  parameter int unsigned MmNkyLsb = 264;
  parameter int unsigned MmNkyW = 8;
  parameter int unsigned MmSkxLsb = 272;
  parameter int unsigned MmSkxW = 16;
  parameter int unsigned MmSkyLsb = 288;
  parameter int unsigned MmSkyW = 16;
  parameter int unsigned MmNnLsb = 304;
  parameter int unsigned MmNnW = 16;
  parameter int unsigned MmWnLsb = 320;
  parameter int unsigned MmWnW = 16;
  parameter int unsigned MmAnLsb = 336;
  parameter int unsigned MmAnW = 16;
  parameter int unsigned MmModeLsb = 352;
  parameter int unsigned MmModeW = 8;
  parameter int unsigned MmRowmaxLsb = 360;
  parameter int unsigned MmRowmaxW = 8;
  parameter int unsigned MmRowmaxAtLsb = 368;
  parameter int unsigned MmRowmaxAtW = 16;
  parameter int unsigned MmInitAtLsb = 384;
  parameter int unsigned MmInitAtW = 16;
  parameter int unsigned MmValidLsb = 400;
  parameter int unsigned MmValidW = 16;

  // VEC
  typedef struct packed {
    logic [1:0][7:0] reserved;
    logic [1:0][31:0] imm;
    logic [15:0] red_at;
    logic [15:0] sub_at;
    logic [7:0] red;
    logic [7:0] sub;
    logic [15:0] r;
    logic [7:0] rq;
    logic [7:0] func;
    logic [15:0] b2;
    logic [15:0] a2;
    logic [15:0] b1;
    logic [15:0] a1;
    logic [7:0] m2;
    logic [7:0] m1;
    logic [15:0] d_ts;
    logic [15:0] d_rs;
    logic [15:0] d;
    logic [15:0] b_ts;
    logic [15:0] b_rs;
    logic [15:0] b;
    logic [15:0] a_ts;
    logic [15:0] a_rs;
    logic [15:0] a;
    logic [7:0] op2;
    logic [7:0] d_src;
    logic [7:0] b_src;
    logic [7:0] a_src;
    logic [7:0] valid;
    logic [7:0] tiles;
    logic [15:0] rows;
    logic [15:0] signal_mask;
    logic [15:0] wait_mask;
    logic [15:0] tag;
    logic [7:0] flags;
    logic [7:0] opcode;
  } vec_word_t;

  parameter int unsigned VecRowsLsb = 64;
  parameter int unsigned VecRowsW = 16;
  parameter int unsigned VecTilesLsb = 80;
  parameter int unsigned VecTilesW = 8;
  parameter int unsigned VecValidLsb = 88;
  parameter int unsigned VecValidW = 8;
  parameter int unsigned VecASrcLsb = 96;
  parameter int unsigned VecASrcW = 8;
  parameter int unsigned VecBSrcLsb = 104;
  parameter int unsigned VecBSrcW = 8;
  parameter int unsigned VecDSrcLsb = 112;
  parameter int unsigned VecDSrcW = 8;
  parameter int unsigned VecOp2Lsb = 120;
  parameter int unsigned VecOp2W = 8;
  parameter int unsigned VecALsb = 128;
  parameter int unsigned VecAW = 16;
  parameter int unsigned VecARsLsb = 144;
  parameter int unsigned VecARsW = 16;
  parameter int unsigned VecATsLsb = 160;
  parameter int unsigned VecATsW = 16;
  parameter int unsigned VecBLsb = 176;
  parameter int unsigned VecBW = 16;
  parameter int unsigned VecBRsLsb = 192;
  parameter int unsigned VecBRsW = 16;
  parameter int unsigned VecBTsLsb = 208;
  parameter int unsigned VecBTsW = 16;
  parameter int unsigned VecDLsb = 224;
  parameter int unsigned VecDW = 16;
  parameter int unsigned VecDRsLsb = 240;
  parameter int unsigned VecDRsW = 16;
  parameter int unsigned VecDTsLsb = 256;
  parameter int unsigned VecDTsW = 16;
  parameter int unsigned VecM1Lsb = 272;
  parameter int unsigned VecM1W = 8;
  parameter int unsigned VecM2Lsb = 280;
  parameter int unsigned VecM2W = 8;
  parameter int unsigned VecA1Lsb = 288;
  parameter int unsigned VecA1W = 16;
  parameter int unsigned VecB1Lsb = 304;
  parameter int unsigned VecB1W = 16;
  parameter int unsigned VecA2Lsb = 320;
  parameter int unsigned VecA2W = 16;
  parameter int unsigned VecB2Lsb = 336;
  parameter int unsigned VecB2W = 16;
  parameter int unsigned VecFuncLsb = 352;
  parameter int unsigned VecFuncW = 8;
  parameter int unsigned VecRqLsb = 360;
  parameter int unsigned VecRqW = 8;
  parameter int unsigned VecRLsb = 368;
  parameter int unsigned VecRW = 16;
  parameter int unsigned VecSubLsb = 384;
  parameter int unsigned VecSubW = 8;
  parameter int unsigned VecRedLsb = 392;
  parameter int unsigned VecRedW = 8;
  parameter int unsigned VecSubAtLsb = 400;
  parameter int unsigned VecSubAtW = 16;
  parameter int unsigned VecRedAtLsb = 416;
  parameter int unsigned VecRedAtW = 16;
  parameter int unsigned VecImmLsb = 432;
  parameter int unsigned VecImmW = 32;
  parameter int unsigned VecImmN = 2;

  // Register map: byte offsets; Stride and Count of registers that repeat; Lsb and W of fields.

  parameter logic [31:0] RegIdValue = 32'h44505530;
  parameter int unsigned RegSpaceBytes = 32'h4000;
  parameter int unsigned RegId = 32'h0000;
  parameter int unsigned RegAbi = 32'h0004;
  parameter int unsigned RegArchDigestLo = 32'h0008;
  parameter int unsigned RegArchDigestHi = 32'h000c;
  parameter int unsigned RegShape = 32'h0010;
  parameter int unsigned RegShapeTilesLsb = 0;
  parameter int unsigned RegShapeTilesW = 8;
  parameter int unsigned RegShapeColsLsb = 8;
  parameter int unsigned RegShapeColsW = 8;
  parameter int unsigned RegShapeLanesLsb = 16;
  parameter int unsigned RegShapeLanesW = 8;
  parameter int unsigned RegCtrl = 32'h0014;
  parameter int unsigned RegCtrlStartLsb = 0;
  parameter int unsigned RegCtrlStartW = 1;
  parameter int unsigned RegCtrlResetLsb = 1;
  parameter int unsigned RegCtrlResetW = 1;
  parameter int unsigned RegStatus = 32'h0018;
  parameter int unsigned RegStatusBusyLsb = 0;
  parameter int unsigned RegStatusBusyW = 1;
  parameter int unsigned RegStatusDoneLsb = 1;
  parameter int unsigned RegStatusDoneW = 1;
  parameter int unsigned RegStatusErrorLsb = 2;
  parameter int unsigned RegStatusErrorW = 1;
  parameter int unsigned RegTileBusy = 32'h001c;
  parameter int unsigned RegIrqEnable = 32'h0020;
  parameter int unsigned RegIrqEnableEndLsb = 0;
  parameter int unsigned RegIrqEnableEndW = 1;
  parameter int unsigned RegIrqEnableErrorLsb = 1;
  parameter int unsigned RegIrqEnableErrorW = 1;
  parameter int unsigned RegIrqStatus = 32'h0024;
  parameter int unsigned RegIrqStatusEndLsb = 0;
  parameter int unsigned RegIrqStatusEndW = 1;
  parameter int unsigned RegIrqStatusErrorLsb = 1;
  parameter int unsigned RegIrqStatusErrorW = 1;
  parameter int unsigned RegError = 32'h0028;
  parameter int unsigned RegErrorCodeLsb = 0;
  parameter int unsigned RegErrorCodeW = 8;
  parameter int unsigned RegErrorTileLsb = 8;
  parameter int unsigned RegErrorTileW = 8;
  parameter int unsigned RegErrorEngineLsb = 16;
  parameter int unsigned RegErrorEngineW = 8;
  parameter int unsigned RegErrorWord = 32'h002c;
  parameter int unsigned RegErrorAddressLo = 32'h0030;
  parameter int unsigned RegErrorAddressHi = 32'h0034;
  parameter int unsigned RegCyclesLo = 32'h0038;
  parameter int unsigned RegCyclesHi = 32'h003c;
  parameter int unsigned RegWatchdog = 32'h0040;
  parameter int unsigned RegBaseLo = 32'h0080;
  parameter int unsigned RegBaseLoStride = 32'h10;
  parameter int unsigned RegBaseLoCount = 8;
  parameter int unsigned RegBaseHi = 32'h0084;
  parameter int unsigned RegBaseHiStride = 32'h10;
  parameter int unsigned RegBaseHiCount = 8;
  parameter int unsigned RegLimitLo = 32'h0088;
  parameter int unsigned RegLimitLoStride = 32'h10;
  parameter int unsigned RegLimitLoCount = 8;
  parameter int unsigned RegLimitHi = 32'h008c;
  parameter int unsigned RegLimitHiStride = 32'h10;
  parameter int unsigned RegLimitHiCount = 8;
  parameter int unsigned RegTileProgramLo = 32'h1000;
  parameter int unsigned RegTileProgramLoStride = 32'h100;
  parameter int unsigned RegTileProgramLoCount = 32;
  parameter int unsigned RegTileProgramHi = 32'h1004;
  parameter int unsigned RegTileProgramHiStride = 32'h100;
  parameter int unsigned RegTileProgramHiCount = 32;
  parameter int unsigned RegTileProgramWords = 32'h1008;
  parameter int unsigned RegTileProgramWordsStride = 32'h100;
  parameter int unsigned RegTileProgramWordsCount = 32;
  parameter int unsigned RegTileFetched = 32'h100c;
  parameter int unsigned RegTileFetchedStride = 32'h100;
  parameter int unsigned RegTileFetchedCount = 32;
  parameter int unsigned RegTileFp16Overflows = 32'h1010;
  parameter int unsigned RegTileFp16OverflowsStride = 32'h100;
  parameter int unsigned RegTileFp16OverflowsCount = 32;
  parameter int unsigned RegTileNans = 32'h1014;
  parameter int unsigned RegTileNansStride = 32'h100;
  parameter int unsigned RegTileNansCount = 32;
  parameter int unsigned RegTileReadBytesLo = 32'h1018;
  parameter int unsigned RegTileReadBytesLoStride = 32'h100;
  parameter int unsigned RegTileReadBytesLoCount = 32;
  parameter int unsigned RegTileReadBytesHi = 32'h101c;
  parameter int unsigned RegTileReadBytesHiStride = 32'h100;
  parameter int unsigned RegTileReadBytesHiCount = 32;
  parameter int unsigned RegTileWrittenBytesLo = 32'h1020;
  parameter int unsigned RegTileWrittenBytesLoStride = 32'h100;
  parameter int unsigned RegTileWrittenBytesLoCount = 32;
  parameter int unsigned RegTileWrittenBytesHi = 32'h1024;
  parameter int unsigned RegTileWrittenBytesHiStride = 32'h100;
  parameter int unsigned RegTileWrittenBytesHiCount = 32;
  parameter int unsigned RegTileLoadWords = 32'h1040;
  parameter int unsigned RegTileLoadWordsStride = 32'h100;
  parameter int unsigned RegTileLoadWordsCount = 32;
  parameter int unsigned RegTileLoadAt = 32'h1044;
  parameter int unsigned RegTileLoadAtStride = 32'h100;
  parameter int unsigned RegTileLoadAtCount = 32;
  parameter int unsigned RegTileLoadBusyLo = 32'h1048;
  parameter int unsigned RegTileLoadBusyLoStride = 32'h100;
  parameter int unsigned RegTileLoadBusyLoCount = 32;
  parameter int unsigned RegTileLoadBusyHi = 32'h104c;
  parameter int unsigned RegTileLoadBusyHiStride = 32'h100;
  parameter int unsigned RegTileLoadBusyHiCount = 32;
  parameter int unsigned RegTileLoadStallWaitLo = 32'h1050;
  parameter int unsigned RegTileLoadStallWaitLoStride = 32'h100;
  parameter int unsigned RegTileLoadStallWaitLoCount = 32;
  parameter int unsigned RegTileLoadStallWaitHi = 32'h1054;
  parameter int unsigned RegTileLoadStallWaitHiStride = 32'h100;
  parameter int unsigned RegTileLoadStallWaitHiCount = 32;
  parameter int unsigned RegTileLoadStallPortLo = 32'h1058;
  parameter int unsigned RegTileLoadStallPortLoStride = 32'h100;
  parameter int unsigned RegTileLoadStallPortLoCount = 32;
  parameter int unsigned RegTileLoadStallPortHi = 32'h105c;
  parameter int unsigned RegTileLoadStallPortHiStride = 32'h100;
  parameter int unsigned RegTileLoadStallPortHiCount = 32;
  parameter int unsigned RegTileLoadStallEmptyLo = 32'h1060;
  parameter int unsigned RegTileLoadStallEmptyLoStride = 32'h100;
  parameter int unsigned RegTileLoadStallEmptyLoCount = 32;
  parameter int unsigned RegTileLoadStallEmptyHi = 32'h1064;
  parameter int unsigned RegTileLoadStallEmptyHiStride = 32'h100;
  parameter int unsigned RegTileLoadStallEmptyHiCount = 32;
  parameter int unsigned RegTileMxuWords = 32'h1068;
  parameter int unsigned RegTileMxuWordsStride = 32'h100;
  parameter int unsigned RegTileMxuWordsCount = 32;
  parameter int unsigned RegTileMxuAt = 32'h106c;
  parameter int unsigned RegTileMxuAtStride = 32'h100;
  parameter int unsigned RegTileMxuAtCount = 32;
  parameter int unsigned RegTileMxuBusyLo = 32'h1070;
  parameter int unsigned RegTileMxuBusyLoStride = 32'h100;
  parameter int unsigned RegTileMxuBusyLoCount = 32;
  parameter int unsigned RegTileMxuBusyHi = 32'h1074;
  parameter int unsigned RegTileMxuBusyHiStride = 32'h100;
  parameter int unsigned RegTileMxuBusyHiCount = 32;
  parameter int unsigned RegTileMxuStallWaitLo = 32'h1078;
  parameter int unsigned RegTileMxuStallWaitLoStride = 32'h100;
  parameter int unsigned RegTileMxuStallWaitLoCount = 32;
  parameter int unsigned RegTileMxuStallWaitHi = 32'h107c;
  parameter int unsigned RegTileMxuStallWaitHiStride = 32'h100;
  parameter int unsigned RegTileMxuStallWaitHiCount = 32;
  parameter int unsigned RegTileMxuStallPortLo = 32'h1080;
  parameter int unsigned RegTileMxuStallPortLoStride = 32'h100;
  parameter int unsigned RegTileMxuStallPortLoCount = 32;
  parameter int unsigned RegTileMxuStallPortHi = 32'h1084;
  parameter int unsigned RegTileMxuStallPortHiStride = 32'h100;
  parameter int unsigned RegTileMxuStallPortHiCount = 32;
  parameter int unsigned RegTileMxuStallEmptyLo = 32'h1088;
  parameter int unsigned RegTileMxuStallEmptyLoStride = 32'h100;
  parameter int unsigned RegTileMxuStallEmptyLoCount = 32;
  parameter int unsigned RegTileMxuStallEmptyHi = 32'h108c;
  parameter int unsigned RegTileMxuStallEmptyHiStride = 32'h100;
  parameter int unsigned RegTileMxuStallEmptyHiCount = 32;
  parameter int unsigned RegTileVpuWords = 32'h1090;
  parameter int unsigned RegTileVpuWordsStride = 32'h100;
  parameter int unsigned RegTileVpuWordsCount = 32;
  parameter int unsigned RegTileVpuAt = 32'h1094;
  parameter int unsigned RegTileVpuAtStride = 32'h100;
  parameter int unsigned RegTileVpuAtCount = 32;
  parameter int unsigned RegTileVpuBusyLo = 32'h1098;
  parameter int unsigned RegTileVpuBusyLoStride = 32'h100;
  parameter int unsigned RegTileVpuBusyLoCount = 32;
  parameter int unsigned RegTileVpuBusyHi = 32'h109c;
  parameter int unsigned RegTileVpuBusyHiStride = 32'h100;
  parameter int unsigned RegTileVpuBusyHiCount = 32;
  parameter int unsigned RegTileVpuStallWaitLo = 32'h10a0;
  parameter int unsigned RegTileVpuStallWaitLoStride = 32'h100;
  parameter int unsigned RegTileVpuStallWaitLoCount = 32;
  parameter int unsigned RegTileVpuStallWaitHi = 32'h10a4;
  parameter int unsigned RegTileVpuStallWaitHiStride = 32'h100;
  parameter int unsigned RegTileVpuStallWaitHiCount = 32;
  parameter int unsigned RegTileVpuStallPortLo = 32'h10a8;
  parameter int unsigned RegTileVpuStallPortLoStride = 32'h100;
  parameter int unsigned RegTileVpuStallPortLoCount = 32;
  parameter int unsigned RegTileVpuStallPortHi = 32'h10ac;
  parameter int unsigned RegTileVpuStallPortHiStride = 32'h100;
  parameter int unsigned RegTileVpuStallPortHiCount = 32;
  parameter int unsigned RegTileVpuStallEmptyLo = 32'h10b0;
  parameter int unsigned RegTileVpuStallEmptyLoStride = 32'h100;
  parameter int unsigned RegTileVpuStallEmptyLoCount = 32;
  parameter int unsigned RegTileVpuStallEmptyHi = 32'h10b4;
  parameter int unsigned RegTileVpuStallEmptyHiStride = 32'h100;
  parameter int unsigned RegTileVpuStallEmptyHiCount = 32;
  parameter int unsigned RegTileStoreWords = 32'h10b8;
  parameter int unsigned RegTileStoreWordsStride = 32'h100;
  parameter int unsigned RegTileStoreWordsCount = 32;
  parameter int unsigned RegTileStoreAt = 32'h10bc;
  parameter int unsigned RegTileStoreAtStride = 32'h100;
  parameter int unsigned RegTileStoreAtCount = 32;
  parameter int unsigned RegTileStoreBusyLo = 32'h10c0;
  parameter int unsigned RegTileStoreBusyLoStride = 32'h100;
  parameter int unsigned RegTileStoreBusyLoCount = 32;
  parameter int unsigned RegTileStoreBusyHi = 32'h10c4;
  parameter int unsigned RegTileStoreBusyHiStride = 32'h100;
  parameter int unsigned RegTileStoreBusyHiCount = 32;
  parameter int unsigned RegTileStoreStallWaitLo = 32'h10c8;
  parameter int unsigned RegTileStoreStallWaitLoStride = 32'h100;
  parameter int unsigned RegTileStoreStallWaitLoCount = 32;
  parameter int unsigned RegTileStoreStallWaitHi = 32'h10cc;
  parameter int unsigned RegTileStoreStallWaitHiStride = 32'h100;
  parameter int unsigned RegTileStoreStallWaitHiCount = 32;
  parameter int unsigned RegTileStoreStallPortLo = 32'h10d0;
  parameter int unsigned RegTileStoreStallPortLoStride = 32'h100;
  parameter int unsigned RegTileStoreStallPortLoCount = 32;
  parameter int unsigned RegTileStoreStallPortHi = 32'h10d4;
  parameter int unsigned RegTileStoreStallPortHiStride = 32'h100;
  parameter int unsigned RegTileStoreStallPortHiCount = 32;
  parameter int unsigned RegTileStoreStallEmptyLo = 32'h10d8;
  parameter int unsigned RegTileStoreStallEmptyLoStride = 32'h100;
  parameter int unsigned RegTileStoreStallEmptyLoCount = 32;
  parameter int unsigned RegTileStoreStallEmptyHi = 32'h10dc;
  parameter int unsigned RegTileStoreStallEmptyHiStride = 32'h100;
  parameter int unsigned RegTileStoreStallEmptyHiCount = 32;

  typedef enum logic [7:0] {
    ErrorNone = 8'd0,
    ErrorOpcode = 8'd1,
    ErrorField = 8'd2,
    ErrorScratchpad = 8'd3,
    ErrorRegion = 8'd4,
    ErrorFetch = 8'd5,
    ErrorNumeric = 8'd6,
    ErrorDram = 8'd7,
    ErrorWatchdog = 8'd8
  } error_e;

  /* verilator lint_on UNUSEDPARAM */

endpackage
