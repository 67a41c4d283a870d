// The scratchpad side of LOAD: the steps of the walker take bytes out of the ring and become words at the write ports.
// Two registers: the ring's word, then the word at the port (int4 product, column of a turned tile or plain bytes).
// Reports words as done in order, and faults of illegal words, group integers and table images when their turn comes.

module dpu_load_write
  import dpu_dma_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned ActWords = 1024,
  parameter int unsigned WgtWords = 1024,
  parameter int unsigned VbufWords = 1024,
  parameter int unsigned ParamWords = 1024,
  parameter int unsigned ParamStep = 8,
  parameter int unsigned WordBytes = 64,  // the widest scratchpad word
  parameter int unsigned LevelW = 9,
  localparam int unsigned PtrW = $clog2(WordBytes)
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  logic                            halt_i,  // take no more steps

  input  logic                            job_start_i,
  // Waiver: of the job only the corner-turn's shape.
  /* verilator lint_off UNUSEDSIGNAL */
  input  walk_t                           job_i,  // the one that starts
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic                            step_valid_i,
  output logic                            step_ready_o,
  input  step_t                           step_i,

  input  logic [LevelW-1:0]               level_i,
  output logic                            pop_valid_o,
  output logic [PtrW:0]                   pop_count_o,
  output logic [7:0]                      pop_fill_o,
  input  logic [WordBytes*8-1:0]          word_i,

  output logic                            act_wr_valid_o,
  output logic [$clog2(ActWords)-1:0]     act_wr_addr_o,
  output logic [Cols*8-1:0]               act_wr_data_o,
  input  logic                            act_wr_ready_i,
  output logic                            wgt_wr_valid_o,
  output logic [$clog2(WgtWords)-1:0]     wgt_wr_addr_o,
  output logic [Cols*8-1:0]               wgt_wr_data_o,
  input  logic                            wgt_wr_ready_i,
  output logic                            vbuf_wr_valid_o,
  output logic [$clog2(VbufWords)-1:0]    vbuf_wr_addr_o,
  output logic [Cols*16-1:0]              vbuf_wr_data_o,
  input  logic                            vbuf_wr_ready_i,
  output logic                            param_wr_valid_o,
  output logic [$clog2(ParamWords)-1:0]   param_wr_addr_o,
  output logic [$clog2(Lanes+1)-1:0]      param_wr_count_o,
  output logic [Lanes*32-1:0]             param_wr_data_o,
  input  logic                            param_wr_ready_i,
  output logic                            table_wr_valid_o,
  output logic                            table_wr_slot_o,
  output logic                            table_wr_header_o,
  output logic [7:0]                      table_wr_index_o,
  output logic [127:0]                    table_wr_data_o,

  output logic                            wrote_o,
  output logic                            done_o,
  output logic                            fault_o,
  output dpu_isa_pkg::error_e             fault_code_o,
  output slot_t                           fault_slot_o
);

  import dpu_isa_pkg::*;

  localparam logic [31:0] Magic = 32'h47555044;  // "DPUG"

  // Stage 1: the step whose bytes are the ring's word. Stage 2: the word at the port.
  typedef struct packed {
    slot_t       slot;
    error_e      code;
    logic        act;
    logic        wgt;
    logic        vbuf;
    logic        param;
    logic        entry;       // of a table
    logic        header;
    logic        table_slot;
    logic [15:0] addr;
    logic [4:0]  count;       // PARAM: scalars
    logic        last;
  } write_t;

  logic                    s1_valid_q, s2_valid_q;
  // Waiver: fill and data are done with.
  /* verilator lint_off UNUSEDSIGNAL */
  step_t                   s1_q;
  /* verilator lint_on UNUSEDSIGNAL */
  write_t                  s2_q, s2_d;
  // Waiver: small arrays have no use for a whole beat.
  /* verilator lint_off UNUSEDSIGNAL */
  logic [WordBytes*8-1:0]  data_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [Cols*8-1:0]       group_q, product;
  logic [127:0]            header_q;
  logic [31:0]             crc_q, crc_stored_q;
  logic                    s1_valid, s1_take, s2_ready, s2_take, step_take, turn_step, ring_free;
  logic                    turn_pop_valid, turn_pop_ready, turn_full;
  logic [7:0]              turn_pop_bytes;
  logic [Cols*8-1:0]       turn_word;
  logic                    group_bad, table_good;

  // Steps.
  assign turn_step    = step_i.kind == KindTranspose && !step_i.empty;
  assign step_ready_o = !halt_i && (!s1_valid_q || s1_take) &&
      (!step_i.data || level_i >= LevelW'(step_i.bytes)) && (!turn_step || turn_full);
  assign step_take    = step_valid_i & step_ready_o;

  // The walker and the corner-turn never pop together: a turned word's steps take none.
  assign ring_free      = !s1_valid_q || s1_q.kind == KindTranspose || s1_take;
  assign turn_pop_ready = !halt_i && ring_free && level_i >= LevelW'(turn_pop_bytes);
  assign pop_valid_o    = (step_take && !turn_step) || (turn_pop_valid && turn_pop_ready);
  assign pop_fill_o     = step_i.kind == KindTranspose ? 8'h00 : step_i.fill;
  always_comb begin
    pop_count_o = '0;
    if (turn_pop_valid) pop_count_o = (PtrW + 1)'(turn_pop_bytes);
    else if (step_i.data) pop_count_o = (PtrW + 1)'(step_i.bytes);
  end

  dpu_load_turn #(.Cols(Cols)) u_turn (
    .clk_i,
    .rst_ni,
    .start_i     (job_start_i && job_i.kind == KindTranspose && !job_i.empty),
    .runs_i      (job_i.turn_runs),
    .bytes_i     (job_i.turn_bytes),
    .n2_i        (job_i.n[1]),
    .n3_i        (job_i.n[2]),
    .pop_valid_o (turn_pop_valid),
    .pop_bytes_o (turn_pop_bytes),
    .pop_ready_i (turn_pop_ready),
    .run_i       (word_i[Cols*8-1:0]),
    .full_o      (turn_full),
    .read_i      (step_take && turn_step),
    .take_i      (s1_take && s1_q.kind == KindTranspose),
    .word_o      (turn_word)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)        s1_valid_q <= 1'b0;
    else if (step_take) s1_valid_q <= 1'b1;
    else if (s1_take || halt_i) s1_valid_q <= 1'b0;
  end
  always_ff @(posedge clk_i) begin
    if (step_take) s1_q <= step_i;
  end

  // Stage 1 to 2.
  assign s1_valid = s1_valid_q & ~halt_i;
  assign s2_ready = !s2_valid_q || (s2_take && s2_q.code == ErrorNone);  // nothing goes on behind a fault
  assign s1_take  = s1_valid && (s1_q.group || s2_ready);

  function automatic logic [4:0] scalars(input logic [StepBytesW-1:0] bytes);
    return 5'((bytes + StepBytesW'(3)) >> 2);
  endfunction

  always_comb begin
    s2_d = '{
      slot: s1_q.slot, code: s1_q.code, act: 1'b0, wgt: 1'b0, vbuf: 1'b0, param: 1'b0, entry: 1'b0, header: 1'b0,
      table_slot: s1_q.table_slot, addr: s1_q.addr, count: scalars(s1_q.bytes), last: s1_q.last
    };
    if (!s1_q.empty) begin
      if (s1_q.kind == KindTable) begin
        s2_d.entry  = s1_q.addr >= 16'd4 && !s1_q.last;
        s2_d.header = s1_q.last & table_good;
        s2_d.addr   = s1_q.addr - 16'd4;
        if (s1_q.last && !table_good) s2_d.code = ErrorNumeric;
      end else begin
        s2_d.act   = s1_q.buffer == BufferAct;
        s2_d.wgt   = s1_q.buffer == BufferWgt;
        s2_d.vbuf  = s1_q.buffer == BufferVbuf;
        s2_d.param = s1_q.buffer == BufferParam;
      end
    end
  end

  // A group integer is at most 15 in magnitude. Column 2 j is the low nibble of byte j.
  always_comb begin
    group_bad = 1'b0;
    if (s1_valid && s1_q.group) begin
      for (int unsigned c = 0; c < Cols; c++) begin
        group_bad |= (word_i[c*8+4+:4] != 4'h0 && word_i[c*8+4+:4] != 4'hF) || word_i[c*8+:8] == 8'hF0;
      end
    end
  end

  always_comb begin
    product = '0;
    if (s1_valid && s1_q.kind == KindInt4) begin
      for (int unsigned c = 0; c < Cols; c++) begin
        product[c*8+:8] = unsigned'(8'($signed(word_i[c*4+:4]) * $signed(group_q[c*8+:5])));
      end
    end
  end
  assign table_good = header_q[31:0] == Magic && header_q[47:32] == 16'd1 && ~crc_q == crc_stored_q;

  always_ff @(posedge clk_i) begin
    if (s1_take) begin
      if (s1_q.group) group_q <= word_i[Cols*8-1:0];
      if (s1_q.kind == KindTable && !s1_q.last) begin
        crc_q <= crc_step(s1_q.addr == '0 ? '1 : crc_q, word_i[127:0], s1_q.addr == 16'd3);
        if (s1_q.addr == '0) header_q <= word_i[127:0];
        if (s1_q.addr == 16'd3) crc_stored_q <= word_i[127:96];
      end
      if (!s1_q.group) begin
        s2_q <= s2_d;
        case (s1_q.kind)
          KindInt4:      data_q[Cols*8-1:0] <= product;
          KindTranspose: data_q[Cols*8-1:0] <= turn_word;
          default:       data_q <= word_i;
        endcase
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)                      s2_valid_q <= 1'b0;
    else if (s1_take && !s1_q.group)  s2_valid_q <= 1'b1;
    else if (s2_take)                 s2_valid_q <= 1'b0;
  end

  // The ports.
  assign s2_take = s2_valid_q && (!s2_q.act || act_wr_ready_i) && (!s2_q.wgt || wgt_wr_ready_i) &&
      (!s2_q.vbuf || vbuf_wr_ready_i) && (!s2_q.param || param_wr_ready_i);

  assign act_wr_valid_o   = s2_valid_q & s2_q.act;
  assign act_wr_addr_o    = s2_q.addr[$clog2(ActWords)-1:0];
  assign act_wr_data_o    = data_q[Cols*8-1:0];
  assign wgt_wr_valid_o   = s2_valid_q & s2_q.wgt;
  assign wgt_wr_addr_o    = s2_q.addr[$clog2(WgtWords)-1:0];
  assign wgt_wr_data_o    = data_q[Cols*8-1:0];
  assign vbuf_wr_valid_o  = s2_valid_q & s2_q.vbuf;
  assign vbuf_wr_addr_o   = s2_q.addr[$clog2(VbufWords)-1:0];
  assign vbuf_wr_data_o   = data_q[Cols*16-1:0];
  assign param_wr_valid_o = s2_valid_q & s2_q.param;
  assign param_wr_addr_o  = s2_q.addr[$clog2(ParamWords)-1:0];
  assign param_wr_count_o = $clog2(Lanes + 1)'(s2_q.count);
  assign param_wr_data_o  = (Lanes * 32)'(data_q[ParamStep*32-1:0]);
  // The header comes last, after the checksum: without it VPU takes the slot for empty.
  assign table_wr_valid_o  = s2_valid_q & (s2_q.entry | s2_q.header);
  assign table_wr_slot_o   = s2_q.table_slot;
  assign table_wr_header_o = s2_q.header;
  assign table_wr_index_o  = s2_q.addr[7:0];
  assign table_wr_data_o   = s2_q.header ? header_q : data_q[127:0];

  assign wrote_o = s2_take;

  // A fault in stage 2 is of an earlier word than one in stage 1.
  logic s2_fault;
  assign s2_fault     = s2_take && s2_q.code != ErrorNone;
  assign fault_o      = s2_fault | group_bad;
  assign fault_code_o = s2_fault ? s2_q.code : ErrorNumeric;
  assign fault_slot_o = s2_fault ? s2_q.slot : s1_q.slot;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) done_o <= 1'b0;
    else         done_o <= s2_take && s2_q.last && s2_q.code == ErrorNone;
  end

endmodule
