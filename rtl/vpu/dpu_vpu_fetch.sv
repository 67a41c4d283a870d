// Holds two checked words and reads their operands ahead of the lanes: A and B element by element, the scalars of rows
// and columns in groups. Each of the four units takes the words in turn, on its own; the last beat frees a word's slot.
// A word is read for only when all earlier ones that it depends on are done: DRAIN and tokens see to that.

module dpu_vpu_fetch
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned AccWords = 2048,
  parameter int unsigned VbufWords = 4096,
  parameter int unsigned ParamWords = 16384
) (
  input  logic                                   clk_i,
  input  logic                                   rst_ni,

  input  logic                                   config_valid_i,
  output logic                                   config_ready_o,
  input  config_t                                config_i,

  // the words: that of the beats, and the one that would begin next
  output logic                                   empty_o,
  output config_t                                current_o,
  output logic                                   next_valid_o,
  output config_t                                next_o,
  input  logic                                   active_i,
  input  logic                                   ends_i,

  // operands, 0: A, 1: B; 0: rows, 1: columns, where g_i names the beat
  output logic [1:0]                             element_valid_o,
  output logic [1:0][Cols*32-1:0]                element_data_o,
  input  logic [1:0]                             element_pop_i,
  output logic [1:0]                             scalar_valid_o,
  output logic [RowScalars-1:0][Lanes-1:0][31:0] rows_o,
  output logic [Factors-1:0][Lanes-1:0][31:0]    cols_o,
  input  logic [1:0]                             scalar_pop_i,
  input  logic [6:0]                             g_i,

  output logic                                   acc_rd_valid_o,
  output logic [$clog2(AccWords)-1:0]            acc_rd_addr_o,
  input  logic                                   acc_rd_ready_i,
  input  logic [Cols*32-1:0]                     acc_rd_data_i,
  output logic                                   vbuf_rd_valid_o,
  output logic [$clog2(VbufWords)-1:0]           vbuf_rd_addr_o,
  input  logic [Cols*16-1:0]                     vbuf_rd_data_i,
  output logic                                   param_rd_valid_o,
  output logic [$clog2(ParamWords)-1:0]          param_rd_addr_o,
  input  logic [Lanes*32-1:0]                    param_rd_data_i
);

  // Two slots of checked words. Each fetch unit takes them in turn; the last beat frees a slot.
  localparam int unsigned Units = 4;  // 0: A, 1: B, 2: scalars of rows, 3: scalars of columns

  config_t        slot_q [2];
  logic [1:0]     slot_valid_q;
  logic           slot_wr_q, current_q, next_slot;
  logic [Units-1:0]      unit_slot_q, unit_valid, unit_done;
  logic [Units-1:0][1:0] taken_q;

  typedef logic [Lanes-1:0][31:0] scalars_t;


  always_comb begin
    for (int unsigned u = 0; u < Units; u++) begin
      unit_valid[u] = slot_valid_q[unit_slot_q[u]] & !taken_q[u][unit_slot_q[u]];
    end
  end

  assign next_slot      = active_i ? !current_q : current_q;
  assign config_ready_o = !slot_valid_q[slot_wr_q];
  assign empty_o        = slot_valid_q == '0;
  assign current_o      = slot_q[current_q];
  assign next_valid_o   = slot_valid_q[next_slot];
  assign next_o         = slot_q[next_slot];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      slot_valid_q <= '0;
      slot_wr_q    <= 1'b0;
      current_q    <= 1'b0;
      unit_slot_q  <= '0;
      taken_q      <= '0;
    end else begin
      for (int unsigned u = 0; u < Units; u++) begin
        if (unit_done[u]) begin
          unit_slot_q[u]             <= !unit_slot_q[u];
          taken_q[u][unit_slot_q[u]] <= 1'b1;
        end
      end
      if (ends_i) begin
        slot_valid_q[current_q] <= 1'b0;
        current_q               <= !current_q;
      end
      if (config_valid_i && config_ready_o) begin
        slot_valid_q[slot_wr_q] <= 1'b1;
        slot_wr_q               <= !slot_wr_q;
        for (int unsigned u = 0; u < Units; u++) taken_q[u][slot_wr_q] <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (config_valid_i && config_ready_o) slot_q[slot_wr_q] <= config_i;
  end

  // Fetching. ACC, VBUF: A before B. PARAM: scalars of rows, of columns, A, B.
  logic [1:0]              element_acc, element_vbuf, element_param, element_grant;
  logic [1:0][15:0]        element_addr;
  element_t [1:0]          element;

  assign element[0] = slot_q[unit_slot_q[0]].a;
  assign element[1] = slot_q[unit_slot_q[1]].b;

  for (genvar e = 0; e < 2; e++) begin : gen_element
    dpu_vpu_element #(
      .Cols (Cols),
      .Lanes(Lanes)
    ) u_element (
      .clk_i,
      .rst_ni,
      .word_valid_i(unit_valid[e]),
      .word_done_o (unit_done[e]),
      .element_i   (element[e]),
      .rows_i      (slot_q[unit_slot_q[e]].rows),
      .tiles_i     (slot_q[unit_slot_q[e]].tiles),
      .valid_i     (slot_q[unit_slot_q[e]].valid),
      .vector_i    (slot_q[unit_slot_q[e]].vector),
      .acc_req_o   (element_acc[e]),
      .vbuf_req_o  (element_vbuf[e]),
      .param_req_o (element_param[e]),
      .addr_o      (element_addr[e]),
      .grant_i     (element_grant[e]),
      .acc_data_i  (acc_rd_data_i),
      .vbuf_data_i (vbuf_rd_data_i),
      .param_data_i(param_rd_data_i),
      .valid_o     (element_valid_o[e]),
      .data_o      (element_data_o[e]),
      .pop_i       (element_pop_i[e])
    );
  end

  logic [1:0]       scalar_req, scalar_grant;
  logic [1:0][15:0] scalar_addr;
  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  config_t          row_word, col_word;
  /* verilator lint_on UNUSEDSIGNAL */

  assign row_word = slot_q[unit_slot_q[2]];
  assign col_word = slot_q[unit_slot_q[3]];

  dpu_vpu_loader #(
    .Lanes  (Lanes),
    .Vectors(RowScalars),
    .Reads  (1),
    .Stride (Lanes)
  ) u_rows (
    .clk_i,
    .rst_ni,
    .word_valid_i(unit_valid[2]),
    .word_done_o (unit_done[2]),
    .used_i      (row_word.row_used),
    .at_i        (row_word.scalar_at),
    .groups_i    (16'((32'(row_word.rows) + Lanes - 1) / Lanes)),
    .passes_i    ((row_word.rows <= 16'(Lanes)) ? 8'd1 : row_word.tiles),
    .last_read_i ('0),
    .req_o       (scalar_req[0]),
    .addr_o      (scalar_addr[0]),
    .grant_i     (scalar_grant[0]),
    .data_i      (scalars_t'(param_rd_data_i)),
    .valid_o     (scalar_valid_o[0]),
    .read_i      ('0),
    .data_o      (rows_o),
    .pop_i       (scalar_pop_i[0])
  );

  dpu_vpu_loader #(
    .Lanes  (Lanes),
    .Vectors(Factors),
    .Reads  (Cols / Lanes),
    .Stride (Cols)
  ) u_cols (
    .clk_i,
    .rst_ni,
    .word_valid_i(unit_valid[3]),
    .word_done_o (unit_done[3]),
    .used_i      (col_word.col_used),
    .at_i        (col_word.scalar_at[Factors-1:0]),
    .groups_i    (16'(col_word.tiles)),
    .passes_i    (8'd1),
    .last_read_i (7'((32'(col_word.valid) - 1) / Lanes)),
    .req_o       (scalar_req[1]),
    .addr_o      (scalar_addr[1]),
    .grant_i     (scalar_grant[1]),
    .data_i      (scalars_t'(param_rd_data_i)),
    .valid_o     (scalar_valid_o[1]),
    .read_i      (g_i),
    .data_o      (cols_o),
    .pop_i       (scalar_pop_i[1])
  );

  /* verilator lint_off UNUSEDSIGNAL */  // addresses were checked: what is beyond a buffer's width is zero
  logic [15:0] acc_addr, vbuf_addr, param_addr;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [1:0]  param_grant;

  assign scalar_grant[0] = 1'b1;
  assign scalar_grant[1] = !scalar_req[0];
  assign param_grant[0]  = scalar_req == '0;
  assign param_grant[1]  = scalar_req == '0 & !element_param[0];
  assign param_addr      = scalar_req[0] ? scalar_addr[0] : scalar_req[1] ? scalar_addr[1] :
                           element_param[0] ? element_addr[0] : element_addr[1];
  assign acc_addr        = element_acc[0] ? element_addr[0] : element_addr[1];
  assign vbuf_addr       = element_vbuf[0] ? element_addr[0] : element_addr[1];
  assign element_grant[0] = element_acc[0] ? acc_rd_ready_i : element_param[0] ? param_grant[0] : 1'b1;
  assign element_grant[1] = element_acc[1] ? acc_rd_ready_i & !element_acc[0] :
                            element_param[1] ? param_grant[1] : !element_vbuf[0];

  assign acc_rd_valid_o   = element_acc != '0;
  assign vbuf_rd_valid_o  = element_vbuf != '0;
  assign param_rd_valid_o = scalar_req != '0 | element_param != '0;
  assign acc_rd_addr_o    = acc_addr[$clog2(AccWords)-1:0];
  assign vbuf_rd_addr_o   = vbuf_addr[$clog2(VbufWords)-1:0];
  assign param_rd_addr_o  = param_addr[$clog2(ParamWords)-1:0];

endmodule
