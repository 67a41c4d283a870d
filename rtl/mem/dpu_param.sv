// PARAM: 32-bit scalars in Lanes banks (address mod Lanes), in three copies so that three clients read at once.
// A read gives the Lanes scalars from any address on, in the next cycle (beyond the end: anything). A write stores the
// first `count` of its scalars; writes that share no bank pass together, else MXU goes before VPU, VPU before LOAD.

module dpu_param #(
  parameter int unsigned Words = 1024,
  parameter int unsigned Lanes = 8,
  localparam int unsigned AddrW  = $clog2(Words),
  localparam int unsigned CountW = $clog2(Lanes + 1)
) (
  input  logic                         clk_i,

  // 0: VPU operands, 1: VPU reductions, 2: MXU, 3: STORE, which is refused while MXU reads
  input  logic [3:0]                   rd_valid_i,
  input  logic [3:0][AddrW-1:0]        rd_addr_i,
  output logic [3:0]                   rd_ready_o,
  output logic [3:0][Lanes*32-1:0]     rd_data_o,  // scalar i in bits 32 i + 31 : 32 i

  // 0: MXU, 1: VPU, 2: LOAD
  input  logic [2:0]                   wr_valid_i,
  input  logic [2:0][AddrW-1:0]        wr_addr_i,
  input  logic [2:0][CountW-1:0]       wr_count_i,
  input  logic [2:0][Lanes*32-1:0]     wr_data_i,
  output logic [2:0]                   wr_ready_o
);

  localparam int unsigned Rows    = (Words + Lanes - 1) / Lanes;
  localparam int unsigned RowW    = (Rows > 1) ? $clog2(Rows) : 1;
  localparam int unsigned LaneW   = (Lanes > 1) ? $clog2(Lanes) : 1;
  localparam int unsigned Copies  = 3;
  localparam int unsigned Writers = 3;

  function automatic logic [LaneW-1:0] lane_of(input logic [AddrW-1:0] addr);
    return LaneW'(32'(addr) % Lanes);
  endfunction

  // Row of `addr`; banks below that of `addr` have the access's scalar in the next row.
  function automatic logic [RowW-1:0] row_of(input logic [AddrW-1:0] addr);
    return RowW'(32'(addr) / Lanes);
  endfunction

  // How far bank `b` is from the bank of `addr`: the position of its scalar in the access.
  function automatic logic [LaneW-1:0] position(input logic [AddrW-1:0] addr, input logic [LaneW-1:0] b);
    return b - lane_of(addr);
  endfunction

  // Writes: which banks each wants, and who gets them.

  logic [Writers-1:0][Lanes-1:0]    wr_mask;
  logic [Writers-1:0][LaneW-1:0]    wr_lane;
  logic [Writers-1:0][1:0][RowW-1:0] wr_rows;  // of banks from that of the address on, of those below
  logic [Writers-1:0][Lanes-1:0]    wr_below;
  logic [Writers-1:0][Lanes*32-1:0] wr_turned;

  for (genvar w = 0; w < Writers; w++) begin : gen_writer
    for (genvar b = 0; b < Lanes; b++) begin : gen_mask
      assign wr_mask[w][b] = wr_valid_i[w] & (CountW'(position(wr_addr_i[w], LaneW'(b))) < wr_count_i[w]);
    end
    assign wr_lane[w]    = lane_of(wr_addr_i[w]);
    assign wr_rows[w][0] = row_of(wr_addr_i[w]);
    assign wr_rows[w][1] = wr_rows[w][0] + RowW'(1);
    assign wr_below[w]   = ~({Lanes{1'b1}} << wr_lane[w]);

    // Address order to bank order, a power of two of scalars at a time: a selection for each bank is much larger.
    always_comb begin
      wr_turned[w] = wr_data_i[w];
      for (int unsigned k = 0; k < LaneW; k++) begin
        if (wr_valid_i[w] && wr_lane[w][k]) begin
          wr_turned[w] = (wr_turned[w] << (32 << k)) | (wr_turned[w] >> (32 * Lanes - (32 << k)));
        end
      end
    end
  end

  assign wr_ready_o[0] = 1'b1;
  assign wr_ready_o[1] = (wr_mask[1] & wr_mask[0]) == '0;
  assign wr_ready_o[2] = (wr_mask[2] & (wr_mask[1] | wr_mask[0])) == '0;

  logic [Lanes-1:0]           bank_wr_en;
  logic [Lanes-1:0][RowW-1:0] bank_wr_row;
  logic [Lanes-1:0][31:0]     bank_wr_data;

  // A bank that nobody writes is offered the last writer's.
  always_comb begin
    bank_wr_en   = '0;
    bank_wr_row  = '0;
    bank_wr_data = '0;
    if (wr_valid_i != '0) begin
      for (int unsigned b = 0; b < Lanes; b++) begin
        bank_wr_row[b]  = wr_rows[2][wr_below[2][b]];
        bank_wr_data[b] = wr_turned[2][32*b+:32];
        bank_wr_en[b]   = wr_mask[2][b] & wr_ready_o[2];
        for (int unsigned w = 2; w > 0; w--) begin
          if (wr_mask[w-1][b] && wr_ready_o[w-1]) begin
            bank_wr_en[b]   = 1'b1;
            bank_wr_row[b]  = wr_rows[w-1][wr_below[w-1][b]];
            bank_wr_data[b] = wr_turned[w-1][32*b+:32];
          end
        end
      end
    end
  end

  // Reads: each copy has one reader, the last one two.

  logic [Copies-1:0]                  copy_rd_en;
  logic [Copies-1:0][AddrW-1:0]       copy_rd_addr;
  logic [Copies-1:0][LaneW-1:0]       copy_lane_q;
  logic [Copies-1:0]                  copy_valid_q;
  logic [Copies-1:0][Lanes-1:0][31:0] copy_data;
  logic [Copies-1:0][Lanes*32-1:0]    copy_turned;

  assign rd_ready_o      = {~rd_valid_i[2], 3'b111};
  assign copy_rd_en      = {rd_valid_i[2] | rd_valid_i[3], rd_valid_i[1:0]};
  assign copy_rd_addr[0] = rd_addr_i[0];
  assign copy_rd_addr[1] = rd_addr_i[1];
  assign copy_rd_addr[2] = rd_valid_i[2] ? rd_addr_i[2] : rd_addr_i[3];
  assign rd_data_o[2:0]  = copy_turned;
  assign rd_data_o[3]    = copy_turned[2];

  for (genvar c = 0; c < Copies; c++) begin : gen_copy
    logic [1:0][RowW-1:0] rows;
    logic [Lanes-1:0]     below;  // banks whose scalar is in the next row
    assign rows[0] = row_of(copy_rd_addr[c]);
    assign rows[1] = rows[0] + RowW'(1);
    assign below   = ~({Lanes{1'b1}} << lane_of(copy_rd_addr[c]));

    always_ff @(posedge clk_i) begin
      copy_valid_q[c] <= copy_rd_en[c];
      if (copy_rd_en[c]) copy_lane_q[c] <= lane_of(copy_rd_addr[c]);
    end

    // Bank order to address order. The valid bit only keeps an idle port from costing simulation time.
    always_comb begin
      copy_turned[c] = (Lanes * 32)'(copy_data[c]);
      for (int unsigned k = 0; k < LaneW; k++) begin
        if (copy_valid_q[c] && copy_lane_q[c][k]) begin
          copy_turned[c] = (copy_turned[c] >> (32 << k)) | (copy_turned[c] << (32 * Lanes - (32 << k)));
        end
      end
    end

    for (genvar b = 0; b < Lanes; b++) begin : gen_bank
      dpu_ram #(
        .Words (Rows),
        .Width (32)
      ) u_ram (
        .clk_i,
        .rd_en_i  (copy_rd_en[c]),
        .rd_addr_i(rows[below[b]]),
        .rd_data_o(copy_data[c][b]),
        .wr_en_i  (bank_wr_en[b]),
        .wr_addr_i(bank_wr_row[b]),
        .wr_data_i(bank_wr_data[b])
      );
    end
  end

endmodule
